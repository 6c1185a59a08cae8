"""The options that both services have: what they set."""

import argparse
from pathlib import Path

import pytest

from services.engine.config import ConfigError, EngineConfig
from services.service.options import OptionGroups, add_options, engine_config
from services.service.server_config import ServerConfig


def parse(*flags: str) -> EngineConfig:
    parser = argparse.ArgumentParser()
    add_options(OptionGroups(parser))
    return engine_config(parser.parse_args(flags), Path("folder"))


@pytest.mark.parametrize(("flags", "is_on"), [([], True), (["--no-prefix-cache"], False)])
def test_the_prefix_cache_can_be_switched_off(flags: list[str], is_on: bool):
    assert parse(*flags).prefix_cache == is_on


@pytest.mark.parametrize("size", ["inf", "-inf", "nan", "0", "-1", "1e308", "1e400", "much"])
def test_a_size_is_a_finite_number(size: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse(f"--kv-memory={size}")
    said = capsys.readouterr().err
    assert "argument --kv-memory: " in said
    assert size in said


def test_a_size_is_in_gibibytes():
    assert parse("--kv-memory", "0.25").kv_memory == 1 << 28


@pytest.mark.parametrize("listen", ["host", "127.0.0.1:65536", "127.0.0.1:٣", "127.0.0.1:99999999999999"])
def test_a_port_that_cannot_be_is_refused(listen: str):
    with pytest.raises(ConfigError, match="it must be HOST:PORT, with a port from 0 to 65535, or unix:PATH"):
        ServerConfig(listen=listen)
