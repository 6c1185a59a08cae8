"""What a run of tests/gpu.sh has measured, beside the run before it: `python -m tests.gpu.figures DIR`.

DIR holds kernels.json and passes.json, as far as they were measured. figures.tsv has the value of each figure in the
run before, what was expected of this one, and what it must reach; after a run it is brought up to date by hand.
"""

import argparse
import csv
import json
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("figures.tsv")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    print_table(parser.parse_args().folder)


def print_table(folder: Path) -> None:
    """Print each figure of the table, and `-` where the run has not measured it."""
    measured = measured_figures(folder)
    print(f"{'figure':30} {'before':>8} {'predicted':>10} {'now':>8} {'must':>6}")
    with TABLE.open(encoding="ascii", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            now = measured.get(row["figure"])
            shown = "-" if now is None else f"{now:.3g}"
            print(f"{row['figure']:30} {row['before']:>8} {row['predicted']:>10} {shown:>8} {row['must']:>6}")


def measured_figures(folder: Path) -> dict[str, float]:
    """The figures of a run, by their names in the table."""
    figures = {}
    kernels = _read(folder / "kernels.json")
    if "read_rate" in kernels:
        figures["read rate, TB/s"] = kernels["read_rate"] / 1e12
    for kernel in kernels.get("kernels", []):
        if (kernel["kernel"], kernel["shape"], kernel["format"]) == ("attention", "8b", "bf16") and kernel["seconds"]:
            figures[f"attention, {kernel['context']}, {kernel['rows']} rows, us"] = 1e6 * kernel["seconds"]
    for name, measured in _read(folder / "passes.json").items():
        if isinstance(measured, dict):
            for key, value in measured.items():
                shown = {"bandwidth_fraction": "one row, share"}.get(key, key)
                if isinstance(value, float):
                    figures[f"{name}, {shown}"] = value
    return figures


def _read(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return read


if __name__ == "__main__":
    main()
