"""The progress of an installation, from lines as pip and Ninja write them."""

import io

import pytest

from scripts.install import _CUDA, _Progress, _state


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Collecting numpy<3,>=2.2 (from outrider)\n", "installing packages: numpy"),
        ("  Collecting pybind11<4,>=3.0\n", "installing packages: pybind11"),
        (
            "  [12/87] Building CXX object CMakeFiles/_native.dir/src/cpu/avx512/products.cpp.o\n",
            "compiling 12 of 87: products.cpp",
        ),
        (
            "  [86/87] Linking CXX shared module _native.cpython-311-x86_64-linux-gnu.so\n",
            "compiling 86 of 87: _native",
        ),
        ("  Requirement already satisfied: grpcio\n", ""),
    ],
)
def test_each_step_is_shown(line: str, shown: str) -> None:
    assert _state(line).startswith(shown)
    assert bool(_state(line)) == bool(shown)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_becomes_of_cuda_stays_on_the_terminal() -> None:
    out = Terminal()
    progress = _Progress(out)
    progress.show("installing packages: numpy")
    progress.tell(_CUDA.search("  -- CUDA device: left out\n")[1])
    progress.end()
    screen = [line.rpartition("\r\033[K")[2] for line in out.getvalue().split("\n")]
    assert screen == ["CUDA device: left out", ""]
