"""The machine code of a build's kernels: their instructions are counted, which needs no GPU."""

import ctypes
import importlib.util
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

_INSTRUCTION = np.dtype([("low", "<u8"), ("high", "<u8")])
# The twelve lowest bits of an instruction, from compute capability 7.0 on, as `nvdisasm -hex` shows them beside names.
_TENSOR_CORE, _LOAD, _LOCAL_LOAD, _LOCAL_STORE = (0x23C, 0xDF0), 0x981, 0x983, 0x387  # a warp's, and a group's
_WAIT = 0x82E  # until the kernel before is complete
# Of the device's memory: loads, and stores and atomics.
_LOADS = (0x980, _LOAD)
_STORES = (0x985, 0x986, 0x98A, 0x98E, 0x9A6, 0x9A8, 0x3A9)
_WIDE = 6  # of a load's sizes: 16 bytes
_CONSTANT = 4  # of a load's orders
_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True, slots=True)
class KernelCode:
    """A kernel's instructions."""

    name: str
    code: NDArray[np.void]  # [instructions]

    @property
    def num_bytes(self) -> int:
        return self.code.nbytes

    @property
    def spills(self) -> int:
        """Loads and stores of what registers have no room for."""
        return int(np.isin(self._opcodes, (_LOCAL_LOAD, _LOCAL_STORE)).sum())

    @property
    def products(self) -> int:
        """Instructions for the tensor cores."""
        return int(np.isin(self._opcodes, _TENSOR_CORE).sum())

    @property
    def wide_loads(self) -> int:
        """Loads of 16 bytes from the device's memory."""
        return int((self._loads == _WIDE).sum())

    @property
    def narrow_loads(self) -> int:
        return int((self._loads != _WIDE).sum())

    @property
    def constant_loads(self) -> int:
        """Loads that need not see what the kernel before has written (ld.global.nc)."""
        orders = (self.code["high"][self._opcodes == _LOAD] >> np.uint64(13)) & np.uint64(15)
        return int((orders == _CONSTANT).sum())

    @property
    def instructions_per_product(self) -> float:
        """From the first product to the last: what a warp issues for each of them."""
        (places,) = np.nonzero(np.isin(self._opcodes, _TENSOR_CORE))
        return float((places[-1] - places[0] + 1) / len(places)) if len(places) else 0.0

    @property
    def num_waits(self) -> int:
        """Places at which it waits for the kernel before."""
        return int((self._opcodes == _WAIT).sum())

    @property
    def early_loads(self) -> int:
        """Loads from the device's memory into registers in front of where it first waits."""
        return self._early(_LOADS)

    @property
    def early_stores(self) -> int:
        """Stores and atomics in the device's memory in front of where it first waits."""
        return self._early(_STORES)

    def _early(self, opcodes: tuple[int, ...]) -> int:
        (waits,) = np.nonzero(self._opcodes == _WAIT)
        return int(np.isin(self._opcodes[: waits[0]], opcodes).sum()) if len(waits) else 0

    @property
    def _opcodes(self) -> NDArray[np.uint64]:
        return self.code["low"] & np.uint64(0xFFF)

    @property
    def _loads(self) -> NDArray[np.uint64]:
        return (self.code["high"][self._opcodes == _LOAD] >> np.uint64(9)) & np.uint64(7)


@dataclass(frozen=True, slots=True)
class MachineCode:
    """A build's kernels for one architecture, and the compiler that has made them."""

    architecture: str  # e.g. "sm_90a"
    compiler: str  # e.g. "13.0"
    kernels: tuple[KernelCode, ...]


def find_disassembler() -> Path | None:
    """The toolkit's cuobjdump as its package brings it."""
    try:
        names = files("nvidia-cuda-cuobjdump") or []
    except PackageNotFoundError:
        return None
    return next((Path(str(name.locate())) for name in names if name.name == "cuobjdump"), None)


def read_module(disassembler: Path, architecture: str = "sm_90a") -> MachineCode:
    """The kernels of the native module that is installed; none of a module that was built without CUDA."""
    spec = importlib.util.find_spec("services.engine.decoder.native._native")
    assert spec is not None
    assert spec.origin is not None
    with TemporaryDirectory() as folder:
        found = subprocess.run(
            [disassembler, "-xelf", architecture, spec.origin], check=False, cwd=folder, capture_output=True, text=True
        )
        cubins = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    if found.returncode != 0 and cubins:
        raise RuntimeError(found.stderr)
    compiler = re.search(rb"Cuda compilation tools, release ([0-9.]+)", b"".join(cubins))
    kernels = (kernel for cubin in cubins for kernel in read_cubin(cubin))
    return MachineCode(
        architecture, compiler[1].decode() if compiler else "", tuple(sorted(kernels, key=lambda each: each.name))
    )


def read_cubin(cubin: bytes) -> Iterator[KernelCode]:
    """The kernels of one ELF file: a section each."""
    (begin,) = struct.unpack_from("<Q", cubin, 40)
    _, count, names_index = struct.unpack_from("<HHH", cubin, 58)
    sections = [_SECTION.unpack_from(cubin, begin + index * _SECTION.size) for index in range(count)]
    names = sections[names_index][4]
    for name, _, _, _, offset, size, *_ in sections:
        text = cubin[names + name : cubin.index(b"\0", names + name)].decode()
        if text.startswith(".text."):
            code = np.frombuffer(cubin[offset : offset + size], _INSTRUCTION)
            yield KernelCode(short_name(text.removeprefix(".text.")), code)


def short_name(symbol: str) -> str:
    """The kernel's struct with its arguments, of what the compiler calls the function that runs it."""
    text = re.sub(r"outrider::(cuda::)?(\(anonymous namespace\)::)?", "", _demangle(symbol))
    found = re.match(r"void run(?:_block(?:_in_place)?)?<(.*?)>\(", text)
    return found[1].strip() if found else text


def _demangle(symbol: str) -> str:
    result = _demangler()(symbol.encode(), None, None, None)
    return ctypes.string_at(result).decode() if result else symbol


@cache
def _demangler() -> "ctypes._NamedFuncPointer":
    """The C++ runtime's own, which the native module has loaded."""
    function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return function


if __name__ == "__main__":  # python -m tests.gpu.machine_code FILE.cubin ...
    for path in sys.argv[1:]:
        for kernel in read_cubin(Path(path).read_bytes()):
            print(
                f"{kernel.name}: {kernel.num_bytes} bytes, {kernel.spills} spills, "
                f"{kernel.products} products, {kernel.wide_loads} wide and {kernel.narrow_loads} narrow loads, "
                f"{kernel.instructions_per_product:.1f} instructions a product"
            )
