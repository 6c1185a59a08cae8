"""The options that both services have: what they set."""

import argparse

import pytest

from services.engine.config import EngineConfig
from services.rpc.options import add_options, engine_config


def parse(*flags: str) -> EngineConfig:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return engine_config(parser.parse_args(["--model", "folder", *flags]))


@pytest.mark.parametrize(("flags", "is_on"), [([], True), (["--no-prefix-cache"], False)])
def test_the_prefix_cache_can_be_switched_off(flags: list[str], is_on: bool):
    assert parse(*flags).prefix_cache == is_on
