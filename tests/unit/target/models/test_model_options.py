"""The options of `outrider target` for several models and their drafts."""

import argparse
from pathlib import Path

import pytest

from services.engine.config import ConfigError
from services.engine.hub.hub_name import HubName
from services.service.life.availability import Availability
from services.service.named_option import NamedOption
from services.service.server_config import ServerConfig
from services.target.command import add_options, model_setups
from services.target.engines.model_setup import ModelSetup
from services.target.models.residency_config import ResidencyConfig
from services.target.models.target_models import TargetModels


def setups(*options: str) -> list[ModelSetup]:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return model_setups(parser.parse_args(options))


def test_one_model_needs_no_name():
    (setup,) = setups("--model", "org/name", "--draft", "host:1", "--draft", "unix:/run/a=b")
    assert (setup.name, setup.engine.model) == ("", HubName("org/name"))
    assert setup.drafts == ["host:1", "unix:/run/a=b"]
    assert setups("--model", "a/folder/x", "--name", "b")[0].name == "b"


def test_each_draft_is_for_all_models_or_the_one_it_names():
    drafts = ("--draft", "all:1", "--draft", "small=its-own:2")
    large, small = setups("--model", "large=org/large", "--model", "small=some/where/small", *drafts)
    assert (large.name, large.engine.model, large.drafts) == ("large", HubName("org/large"), ["all:1"])
    assert (small.name, small.engine.model) == ("small", Path("some/where/small"))
    assert small.drafts == ["all:1", "its-own:2"]


def test_a_head_is_for_the_model_that_it_names():
    assert setups("--model", "org/name", "--head", "org/head")[0].engine.head == HubName("org/head")
    first, second = setups("--model", "a=org/a", "--model", "b=org/b", "--head", "b=some/where/head")
    assert (first.engine.head, second.engine.head) == (None, Path("some/where/head"))
    assert (first.engine.uses_mtp, second.engine.uses_mtp) == (True, False)


def test_a_models_own_layer_is_used_unless_it_is_off():
    for options, of_each in (((), (True, True)), (("--head", "off"), (False, False))):
        assert tuple(each.engine.uses_mtp for each in setups("--model", "a=x", "--model", "b=y", *options)) == of_each
    only = setups("--model", "a=x", "--model", "b=y", "--head", "off", "--head", "b=auto")
    assert [(each.engine.uses_mtp, each.engine.head) for each in only] == [(False, None), (True, None)]


def test_names_that_do_not_fit_together_are_refused():
    for options, problem in (
        (("--model", "a=x", "--name", "b"), "name is 'b'; it must not be set where --model has a name"),
        (("--model", "x", "--model", "y", "--name", "b"), "name is 'b'; it must not be set where"),
        (("--model", "a=x", "--model", "b=y", "--draft", "c=host:1"), "draft is for 'c'; it must be for .* a, b$"),
        (("--model", "a=x", "--model", "b=y", "--head", "c=h"), "head is for 'c'; it must be for .* a, b$"),
        (("--model", "a=x", "--model", "b=y", "--head", "h"), "head must be NAME=HEAD where several models"),
        (("--model", "x", "--head", "h", "--head", "i"), "head must be given at most once for each model"),
    ):
        with pytest.raises(ConfigError, match=problem):
            setups(*options)


def test_a_folder_named_with_an_equals_sign_is_a_folder(tmp_path, monkeypatch):
    (tmp_path / "a=b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert NamedOption.parse("a=b") == ("", "a=b")
    assert NamedOption.parse("c=b") == ("c", "b")
    assert NamedOption.parse(f"c={tmp_path}/a=b") == ("c", f"{tmp_path}/a=b")
    for text in ("a/b=c", "=c", "a b=c", "a="):
        assert NamedOption.parse(text) == ("", text)


def test_kv_offload_has_its_size_and_a_folder_needs_one_model():
    disk = ("--kv-offload-dir", "some/where", "--kv-offload-disk", "0.5")
    (setup,) = setups("--model", "x", *disk)
    assert (setup.engine.kv_offload_dir, setup.engine.kv_offload_disk) == (Path("some/where"), 1 << 29)
    several = ("--model", "a=x", "--model", "b=y")
    both = setups(*several, "--kv-offload-memory", "0.001")
    assert [setup.engine.kv_offload_memory for setup in both] == 2 * [(1 << 30) // 1000]
    with pytest.raises(ConfigError, match="kv_offload_dir must not be set where several models are served"):
        setups(*several, *disk)


def test_adapters_belong_to_the_first_model_or_the_one_named():
    (setup,) = setups("--model", "x", "--lora", "a=some/where", "--lora", "b=else/where")
    assert setup.loras == {"a": Path("some/where"), "b": Path("else/where")}
    named = ("--lora", "a=b", "--lora", "n:c=d", "--lora", "m:e=f:g=h")
    first, second = setups("--model", "m=x", "--model", "n=y", *named)
    assert (first.loras, second.loras) == ({"a": Path("b"), "e": Path("f:g=h")}, {"c": Path("d")})
    for options, problem in (
        (("--model", "x", "--lora", "some/where"), "lora is 'some/where'; it must be .MODEL:.NAME=DIR"),
        (("--model", "x", "--lora", "a=b", "--lora", "a=c"), "lora is 'a' more than once"),
        (("--model", "x", "--lora", "b:a=c"), "lora 'a' is for 'b'; it must be for one of"),
        (("--model", "a=x", "--model", "b=y", "--lora", "c=z", "--lora", "b:c=z"), "lora is 'c' more than once"),
    ):
        with pytest.raises(ConfigError, match=problem):
            setups(*options)


async def test_several_models_have_one_gpu_each(monkeypatch):
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"] * 2)
    several = setups("--model", "a=org/name", "--model", "b=org/name", "--device", "cuda:0,cuda:1")

    async def ignore(reason: str) -> None:
        """The server of this availability is not started."""

    with pytest.raises(ConfigError, match=r"^device is 'cuda:0,cuda:1'; several models have one device each$"):
        TargetModels(several, ServerConfig(), Availability(ignore), ResidencyConfig())
    assert len(TargetModels(several[:1], ServerConfig(), Availability(ignore), ResidencyConfig()).all) == 1


def test_a_memory_budget_is_for_models_on_a_cpu(monkeypatch):
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"])
    on_gpu, budget = setups("--model", "org/name", "--device", "cuda:0"), ResidencyConfig(memory_budget=1000)

    async def ignore(reason: str) -> None:
        """The server of this availability is not started."""

    problem = r"^memory_budget is 1000; it must not be set with device cuda:0, only with cpu$"
    with pytest.raises(ConfigError, match=problem):
        TargetModels(on_gpu, ServerConfig(), Availability(ignore), budget)
