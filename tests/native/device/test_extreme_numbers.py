"""Any number as an argument of a native function is computed with or refused: it never ends the process."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from services.engine.checkpoint.model_config import (
    Attention,
    Experts,
    FeatureBlock,
    Features,
    GatedDelta,
    LatentAttention,
    ModelConfig,
    ShortConvolution,
)
from services.engine.decoder import native
from services.engine.sampling_params import SAMPLING_NUMBERS
from tests.native.harness.devices import DEVICES, emulated_device, needs_emulation
from tests.native.harness.extremes.extreme_numbers import World

_OTHER_ISAS = native.isas()[1:]  # before any kernel is called, numbers are checked in the same code for all
_ENDS = re.compile(r"\bint\b|np\.int32|np\.uint32")


@pytest.mark.process
@pytest.mark.parametrize(
    "device_name",
    [pytest.param(name, marks=pytest.mark.exhaustive) if name in _OTHER_ISAS else name for name in DEVICES],
)
def test_extreme_numbers_end_no_process(device_name: str) -> None:
    command = [sys.executable, "-m", "tests.native.harness.extremes.extreme_numbers", device_name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    *_, last = ["nothing", *done.stdout.splitlines()]
    assert done.returncode == 0, f"{last} has ended the process:\n{done.stderr}"


def test_no_number_is_forgotten() -> None:
    stubs = (Path(native.__file__).with_name(f"{module}.pyi") for module in ("_native", "_native_testing"))
    said = [name for stub in stubs for name in _numbers_in(ast.parse(stub.read_text()).body)]
    fields_of_models = {f"DecoderConfig.{field.name}" for field in fields(ModelConfig) if _ENDS.search(str(field.type))}
    fields_of_models |= {f"DecoderConfig.experts.{each.name}" for each in fields(Experts) if each.type is int}
    fields_of_models |= {f"DecoderConfig.features.{each.name}" for each in fields(Features) if each.type is int}
    fields_of_models |= {
        f"DecoderConfig.features.block.{each.name}" for each in fields(FeatureBlock) if each.type is int
    }
    layers = (Attention, ShortConvolution, GatedDelta, LatentAttention)
    numbers = (each for kind in layers for each in fields(kind) if each.type is int or each.type == int | None)
    fields_of_models |= {f"DecoderConfig.layers.{each.name}" for each in numbers}
    assert fields_of_models >= {"DecoderConfig.experts.count", "DecoderConfig.hidden_size"}
    of_sampling = {f"SamplingState.{number.name}" for number in SAMPLING_NUMBERS if number.kind is int}
    assert {*World(DEVICES[0]).calls()} == {*said, *fields_of_models, *of_sampling}


def _numbers_in(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """The names of all arguments and fields of a native module that are numbers or arrays of them."""
    for part in body:
        match part:
            case ast.ClassDef(name="Samples"):  # its arrays are results, not arguments
                yield from _numbers_in([each for each in part.body if isinstance(each, ast.FunctionDef)], "Samples.")
            case ast.ClassDef():
                yield from _numbers_in(part.body, f"{part.name}.")
            case ast.AnnAssign(target=ast.Name(id=name)) if prefix and _ENDS.search(ast.unparse(part.annotation)):
                yield prefix + name
            case ast.FunctionDef():
                function = prefix if part.name == "__init__" else f"{prefix}{part.name}."
                for argument in [*part.args.args, *part.args.kwonlyargs]:
                    if argument.annotation is not None and _ENDS.search(ast.unparse(argument.annotation)):
                        yield function + argument.arg


@needs_emulation
def test_the_emulation_of_a_gpu_refuses_as_many_threads_as_a_cpu() -> None:
    with pytest.raises(ValueError, match=r"threads is 1000000; it must be in 1 \.\.\. 4096"):
        emulated_device(1_000_000)
