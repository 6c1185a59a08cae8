"""ModelPair and CoreAssignment: the models of a target and what predicts for it, and the cores of both."""

import os
from pathlib import Path

import pytest

from services.cli.service_pair import PLACEMENTS, CoreAssignment, ModelPair, options_of_draft
from services.engine.config import ConfigError


@pytest.fixture
def head(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLMEagle3"]}')
    return tmp_path


def test_a_draft_that_is_an_attached_drafter_becomes_the_head(head: Path) -> None:
    pair = ModelPair(Path("target"), head, "name").fetched()
    assert (pair.draft, pair.head, pair.predictor) == (None, head, "the head")
    assert pair.target_options == ["--model", "name=target", "--head", f"name={head}"]
    assert ModelPair(Path("target"), Path("draft")).fetched().predictor == "the draft"


def test_a_head_of_several_models_is_refused(head: Path) -> None:
    pair = ModelPair(Path("a"), head, "a", (("b", Path("b")),))
    with pytest.raises(ConfigError, match="belongs to one of the models; give it as -- --head NAME=HEAD"):
        pair.fetched()


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> set[int]:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: request.param)
    return request.param


@pytest.mark.parametrize("cores", [{0, 1}, {3}, {0, 1, 2, 8}], indirect=True)
def test_shared_cores_are_all_cores(cores: set[int]) -> None:
    assignment = PLACEMENTS["shared"]()
    assert [*assignment.target] == [*assignment.draft] == sorted(cores)


@pytest.mark.parametrize(
    ("cores", "target", "draft"), [({0, 1}, [0], [1]), ({3}, [3], [3]), ({0, 1, 2}, [0], [1, 2])], indirect=["cores"]
)
def test_apart_each_has_half(cores: set[int], target: list[int], draft: list[int]) -> None:
    assert PLACEMENTS["apart"]() == CoreAssignment(target, draft)


def test_the_placement_is_described() -> None:
    shared = CoreAssignment([0, 1, 2, 8], [0, 1, 2, 8])
    assert shared.describe() == "target and draft take turns on cores 0-2,8, since one memory limits both"
    apart = CoreAssignment([0], [1, 2])
    assert apart.describe() == "target on cores 0, draft on cores 1-2, as asked for with --cores"


@pytest.mark.parametrize(
    ("devices", "draft", "shares"),
    [("cpu", "cpu", False), ("cuda:0", "cuda:0", True), ("cuda:0", "cuda:1", False), ("cuda:0,cuda:1", "cuda:1", True)],
)
def test_a_draft_on_one_of_the_targets_gpus_gets_a_small_share(devices: str, draft: str, shares: bool) -> None:
    options = options_of_draft(devices, draft, "bf16")
    assert options[:4] == ["--device", draft, "--weights", "bf16"]
    assert ("--gpu-memory-fraction" in options) == shares
