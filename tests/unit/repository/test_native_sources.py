"""The shape of the native source: where an instruction set is said, which header an include means, and that folders
use each other in one direction.
"""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.unit.repository.test_imports import MOST_LINES_OF_A_MODULE, ROOT

NATIVE = ROOT / "native"
SOURCES = [path for path in sorted(NATIVE.rglob("*")) if path.suffix in {".h", ".cuh", ".cpp", ".cu"}]
INCLUDE_ROOTS = (NATIVE / "include", NATIVE / "src", NATIVE)


def test_the_sources_are_found():
    assert {"decoder.cpp", "vec_avx2.h", "stream.cu", "wide_product.cuh"} <= {path.name for path in SOURCES}


def test_no_file_is_long():
    lengths = {path.relative_to(NATIVE).as_posix(): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES_OF_A_MODULE} == {}


def test_an_instruction_set_is_a_file_and_two_lines():
    isas = dict(re.findall(r"add_isa\((\w+) VEC (\w+) ", (NATIVE / "CMakeLists.txt").read_text()))
    checks = re.findall(r"bool runs_(\w+)\(\)", (NATIVE / "src/cpu/cpu_isa.cpp").read_text())
    assert [*isas] == checks
    vectors = {path.stem for path in (NATIVE / "src/cpu/vec").glob("vec_*.h")} - {"vec_types"}
    assert vectors == {f"vec_{vec}" for vec in isas.values()}
    headers = (NATIVE / "src/cpu").rglob("*.h")
    assert [path.name for path in headers if re.search(r"^#\s*if", path.read_text(), re.MULTILINE)] == []


def test_the_documented_gpu_architectures_are_those_built():
    cmake = (NATIVE / "cmake/cuda.cmake").read_text()
    since = re.search(r"nvcc_version VERSION_GREATER_EQUAL ([\d.]+)\)\n", cmake)[1]
    newer, older = (
        [*dict.fromkeys(f"{int(number) // 10}.{int(number) % 10}" for number in re.findall(r"\d+", listed))]
        for listed in re.findall(r"set\(CMAKE_CUDA_ARCHITECTURES ([^$)]+)\)", cmake)
    )
    added = " and ".join(newer[len(older) :])
    sentence = f"for compute capability {', '.join(older)} and, with nvcc {since} or newer, {added}"
    for page in ("docs/operate/operations.md", "docs/inside/kernels/cuda.md"):
        assert sentence in " ".join((ROOT / page).read_text().split()), page


def found(include: str, owner: Path) -> set[Path]:
    """The files that an include of `owner` may mean."""
    roots = (*INCLUDE_ROOTS, *([owner.parent] if owner.parent.name == "bindings" else []))
    return {root / include for root in roots if (root / include).is_file()}


INCLUDES = [(path, name) for path in SOURCES for name in re.findall(r'#\s*include "([^"]+)"', path.read_text())]


def folder(path: Path) -> str:
    """Where a file is; what a folder of `src` shows to others in `include/outrider` is part of it."""
    return path.parent.relative_to(NATIVE).as_posix().replace("include/outrider", "src")


def included_folders() -> dict[str, set[str]]:
    """The folders that each one includes from."""
    uses: dict[str, set[str]] = {}
    for owner, include in INCLUDES:
        for path in found(include, owner):
            uses.setdefault(folder(owner), set()).add(folder(path))
    return {name: used - {name} for name, used in uses.items()}


def test_every_include_means_one_file():
    assert len(INCLUDES) > 500
    assert [(path.name, name) for path, name in INCLUDES if len(found(name, path)) != 1] == []


def test_folders_include_each_other_in_one_direction():
    uses = included_folders()
    assert uses["src/sampling"] >= {"src/decoder", "src/device"}
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        pytest.fail(f"these folders include each other: {' <- '.join(error.args[1])}")
