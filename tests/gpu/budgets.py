"""What the machine code of kernels on tensor cores may cost, as a table; `python -m tests.gpu.budgets` writes it anew
from the build that is installed, for a diff that says what a change costs.
"""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.machine_code import KernelCode, find_disassembler, read_module

TABLE = Path(__file__).with_name("budgets.tsv")
_SLACK = 1.02  # for a compiler's whims


@dataclass(frozen=True, slots=True)
class Budget:
    """Of one kernel; loads are of the device's memory."""

    kernel: str
    most_bytes: int
    products: int  # instructions for the tensor cores
    wide_loads: int  # of 16 bytes, at least
    narrow_loads: int  # at most
    most_per_product: float  # instructions

    @classmethod
    def of(cls, code: KernelCode) -> "Budget":
        """What is there now, and a little more."""
        return cls(
            kernel=code.name,
            most_bytes=math.ceil(code.num_bytes * _SLACK / 128) * 128,
            products=code.products,
            wide_loads=code.wide_loads,
            narrow_loads=code.narrow_loads,
            most_per_product=math.ceil(code.instructions_per_product * _SLACK * 10) / 10,
        )

    def excess(self, code: KernelCode) -> list[str]:
        """In which ways a kernel is beyond it."""
        bounds = {
            f"{code.num_bytes} bytes of code; at most {self.most_bytes}": code.num_bytes <= self.most_bytes,
            f"{code.products} products; exactly {self.products}": code.products == self.products,
            f"{code.wide_loads} loads of 16 bytes; at least {self.wide_loads}": code.wide_loads >= self.wide_loads,
            f"{code.narrow_loads} narrower loads; at most {self.narrow_loads}": code.narrow_loads <= self.narrow_loads,
            f"{code.instructions_per_product:.1f} instructions a product; at most {self.most_per_product}": (
                code.instructions_per_product <= self.most_per_product
            ),
        }
        return [f"{self.kernel}: {problem}" for problem, holds in bounds.items() if not holds]


def read_budgets() -> dict[str, Budget]:
    """The table, by kernel."""
    with TABLE.open(encoding="ascii", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {row["kernel"]: _budget(row) for row in rows}


def _budget(row: dict[str, str]) -> Budget:
    return Budget(
        kernel=row["kernel"],
        most_bytes=int(row["most_bytes"]),
        products=int(row["products"]),
        wide_loads=int(row["wide_loads"]),
        narrow_loads=int(row["narrow_loads"]),
        most_per_product=float(row["most_per_product"]),
    )


def write_budgets(kernels: tuple[KernelCode, ...]) -> None:
    """The table of those that multiply on tensor cores."""
    with TABLE.open("w", encoding="ascii", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(Budget.__slots__)
        for code in kernels:
            if code.products:
                budget = Budget.of(code)
                writer.writerow(getattr(budget, name) for name in Budget.__slots__)


if __name__ == "__main__":
    disassembler = find_disassembler()
    assert disassembler is not None, "nvidia-cuda-cuobjdump is not installed"
    write_budgets(read_module(disassembler).kernels)
