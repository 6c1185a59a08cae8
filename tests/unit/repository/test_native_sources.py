"""The shape of the native source: where an instruction set is said, and which header an include means."""

import re
from pathlib import Path

from tests.unit.repository.test_imports import MOST_LINES_OF_A_MODULE, ROOT

NATIVE = ROOT / "native"
SOURCES = [path for path in sorted(NATIVE.rglob("*")) if path.suffix in {".h", ".cuh", ".cpp", ".cu"}]
INCLUDE_ROOTS = (NATIVE / "include", NATIVE / "src", NATIVE)


def test_the_sources_are_found():
    assert {"decoder.cpp", "vec_avx2.h", "stream.cu", "tile_product.cuh"} <= {path.name for path in SOURCES}


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


def test_every_include_means_one_file():
    def found(include: str, owner: Path) -> set[Path]:
        roots = (*INCLUDE_ROOTS, *([owner.parent] if owner.parent.name == "bindings" else []))
        return {root / include for root in roots if (root / include).is_file()}

    includes = [(path, name) for path in SOURCES for name in re.findall(r'#include "([^"]+)"', path.read_text())]
    assert len(includes) > 500
    assert [(path.name, name) for path, name in includes if len(found(name, path)) != 1] == []
