"""The table of docs/operate/devices.md is that of the code, and each option that a device lacks is refused."""

import re
from pathlib import Path

import pytest

from scripts.device_docs import PAGE, rows, with_table
from services.engine.config import CPU_OPTIONS, ConfigError, EngineConfig, check_cpu_option
from services.engine.decoder.native import isas


def test_the_table_of_devices_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert "LoRA" in page
    assert with_table(page) == page, "run `python -m scripts.device_docs`"


def test_formats_that_a_cpu_lacks_are_refused_with_those_it_has() -> None:
    lacked = [
        (option, cpu) for _, option, cpu, _ in rows() if option.startswith(("`--weights ", "`--kv ")) and cpu == "no"
    ]
    assert [option for option, _ in lacked] == ["`--weights fp8`", "`--kv fp8`"]
    for option, _ in lacked:
        name, value = re.findall(r"\w+", option)
        with pytest.raises(ConfigError, match=rf"^{name} is '{value}'; it must be one of .*bf16"):
            EngineConfig(model=Path("model"), isa=isas()[0], threads=1, **{name: value})


@pytest.mark.parametrize("name", CPU_OPTIONS)
def test_each_option_that_a_gpu_lacks_is_refused_with_the_device(name: str) -> None:
    check_cpu_option(name, None, "cuda:0")
    check_cpu_option(name, "something", "cpu")
    with pytest.raises(
        ConfigError, match=rf"^{name} is something; it must not be set with device cuda:0, only with cpu$"
    ):
        check_cpu_option(name, "something", "cuda:0")
