"""Setting: what `outrider bench` asks of the engines and the services."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from services.bench.command import add_options
from services.bench.setting import Setting, read_setting
from services.cli.service_pair import ModelPair
from services.engine.config import ConfigError

PAIR = Setting(models=ModelPair(Path("target"), Path("draft")), weights="int8", draft_weights="int4")


def test_the_draft_computes_on_the_named_device_or_its_own():
    assert (PAIR.device_of(draft=False), PAIR.device_of(draft=True)) == ("cpu", "cpu")
    apart = replace(PAIR, device="cuda:0", draft_device="cuda:1")
    assert apart.service_options() == ["--device", "cuda:0", "--weights", "int8", "--kv", "bf16"]
    assert apart.service_options(of_draft=True) == ["--device", "cuda:1", "--weights", "int4", "--kv", "bf16"]


def test_a_draft_on_the_targets_gpu_leaves_it_most_of_the_memory():
    shared = replace(PAIR, device="cuda:0")
    assert "--gpu-memory-fraction" not in shared.service_options()
    assert shared.service_options(of_draft=True)[:2] == ["--device", "cuda:0"]
    assert "--gpu-memory-fraction" in shared.service_options(of_draft=True)
    assert "--gpu-memory-fraction" not in PAIR.service_options(of_draft=True)


def test_each_model_has_its_own_format():
    target, draft = PAIR.engine_config(), PAIR.engine_config(of_draft=True)
    assert (target.model, target.weights) == (Path("target"), "int8")
    assert (draft.model, draft.weights) == (Path("draft"), "int4")


def test_settings_that_cannot_be_measured_are_refused():
    with pytest.raises(ConfigError, match="models has no draft"):
        replace(PAIR, models=ModelPair(Path("target"), None)).engine_config(of_draft=True)
    with pytest.raises(ConfigError, match="device is 'cuda:99'; it must be one of cpu"):
        replace(PAIR, device="cuda:99").engine_config()


def test_options_say_stored_weights_and_no_placement():
    parser = argparse.ArgumentParser()
    add_options(parser)
    arguments = parser.parse_args(["--weights", "stored", "--draft-weights", "stored", "--placements", "none"])
    setting = read_setting(arguments, models=PAIR.models, weights=arguments.weights)
    assert (setting.weights, setting.placements_in_use) == ("stored", [])
