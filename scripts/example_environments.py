"""Make a virtual environment for each program of examples/, and for the plugin of llm: build/examples/NAME.

Each has the exact versions that the program itself names (PEP 723), apart from all others: they do not agree on theirs.
"""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / "build" / "examples"
_METADATA = re.compile(r"^# /// script\n((?:#.*\n)+?)# ///$", re.MULTILINE)
_OURS = {"outrider-client": "clients/python", "llm-outrider": "clients/llm"}
_PLUGIN = ("llm==0.36", "outrider-client", "llm-outrider")


def requirements(program: Path) -> list[str]:
    """What a program says that it needs."""
    (block,) = _METADATA.findall(program.read_text())
    named: list[str] = tomllib.loads(re.sub(r"^# ?", "", block, flags=re.MULTILINE))["dependencies"]
    return named


def main() -> None:
    """Make those that are not there, or not as the programs want them."""
    needed = {program.stem: requirements(program) for program in sorted((ROOT / "examples").glob("*.py"))}
    for name, wanted in (needed | {"llm": [*_PLUGIN]}).items():
        folder = ENVIRONMENTS / name
        if not (folder / "bin" / "python").exists():
            venv.create(folder, with_pip=True)
        found = [str(ROOT / _OURS[each]) if each in _OURS else each for each in wanted]
        # Constraints of the repository are not those of the programs.
        environment = {key: value for key, value in os.environ.items() if key != "PIP_CONSTRAINT"}
        print(f"{name}: {', '.join(wanted)}", file=sys.stderr)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", *found], env=environment, check=True)


if __name__ == "__main__":
    main()
