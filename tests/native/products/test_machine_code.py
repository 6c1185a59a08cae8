"""What kernels are compiled to: a change that makes one spill, load narrowly or grow beyond its budget is seen."""

import pytest

from tests.gpu.budgets import read_budgets
from tests.gpu.machine_code import KernelCode, MachineCode, find_disassembler, read_module

INSTRUCTION_CACHE = 128 << 10  # bytes, about
COMPILER = "13.0"  # whose code the budgets are of
# Two ways; a block runs one of them: without tensor cores, for few queries and for many; and for rows of prompts and
# rows that decode.
TWO_WAYS = ("FloatAttention", "MixedAttention")
# All samplers beyond the usual ones in one kernel; a request runs a few of them. They share functions, which
# get some of their numbers through local memory.
ALL_STEPS = "RunSteps"
EMPTY = "nothing()"
READS_PLACES_EARLY = "Attention"  # where its rows are


@pytest.fixture(scope="module")
def machine_code() -> MachineCode:
    disassembler = find_disassembler()
    if disassembler is None:
        pytest.skip("nvidia-cuda-cuobjdump, which takes the kernels out of a module, is not installed")
    code = read_module(disassembler)
    if not code.kernels:
        pytest.skip(f"the module that is installed has no kernels for {code.architecture}")
    return code


def test_no_kernel_spills(machine_code):
    spilling = [(kernel.name, kernel.spills) for kernel in machine_code.kernels if kernel.spills]
    assert [each for each in spilling if each[0] != ALL_STEPS] == []


def test_every_kernel_waits_for_its_predecessor_before_memory(machine_code):
    """Each may be launched while the one before still runs."""
    kernels = [kernel for kernel in machine_code.kernels if kernel.name != EMPTY]
    assert [kernel.name for kernel in kernels if not kernel.num_waits] == []
    assert [(kernel.name, kernel.early_stores) for kernel in kernels if kernel.early_stores] == []
    early = [kernel for kernel in kernels if kernel.early_loads and READS_PLACES_EARLY not in kernel.name]
    assert [(kernel.name, kernel.early_loads) for kernel in early] == []
    assert [(kernel.name, kernel.constant_loads) for kernel in kernels if kernel.constant_loads] == []


def test_every_kernel_fits_into_the_instruction_cache(machine_code):
    def limit_for(kernel: KernelCode) -> int:
        return INSTRUCTION_CACHE * (2 if kernel.name.startswith((*TWO_WAYS, ALL_STEPS)) else 1)

    assert [
        (kernel.name, kernel.num_bytes) for kernel in machine_code.kernels if kernel.num_bytes > limit_for(kernel)
    ] == []


def test_kernels_on_tensor_cores_keep_their_budgets(machine_code):
    if machine_code.compiler != COMPILER:
        pytest.skip(f"the budgets are of nvcc {COMPILER}, the module is of {machine_code.compiler}")
    budgets = read_budgets()
    kernels = {kernel.name: kernel for kernel in machine_code.kernels if kernel.products}
    assert kernels.keys() == budgets.keys()
    assert [problem for name, kernel in kernels.items() for problem in budgets[name].excess(kernel)] == []
