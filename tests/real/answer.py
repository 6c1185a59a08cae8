"""The answer: a served pair writes a function that merges two sorted lists, and what it has written is run."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

from outrider import Client, Message, Result
from services.cli.service_pair import ModelPair, running_pair
from tests.real.texts import SORTED_LISTS

_CODE = re.compile(r"```(?:python|py)?\n(.*?)```", re.DOTALL)
_MOST_TOKENS = 400
_SECONDS = 20.0  # that the code may take
_NUM_CASES = 200
# The answer's last function is called with two lists: a prelude of ours, so that what it prints is known.
_CALL = """
import json, sys, types
answer = types.ModuleType("answer")
exec(compile(json.loads(sys.stdin.readline()), "answer", "exec"), answer.__dict__)
functions = [value for value in vars(answer).values() if isinstance(value, types.FunctionType)]
print("\\n" + json.dumps([functions[NUMBER](*lists) for lists in json.loads(sys.stdin.readline())]))
"""


def ask(target: Path, draft: Path | None, *, weights: str) -> Result:
    """What the pair answers, served by what `outrider up` runs."""
    with (
        running_pair(
            ModelPair(target, draft), options=["--weights", weights], draft_options=["--weights", weights]
        ) as pair,
        Client(pair.target.address) as client,
    ):
        return client.generate([Message("user", SORTED_LISTS)], temperature=0.0, max_tokens=_MOST_TOKENS)


def merges_sorted_lists(answer: str) -> bool:
    """Whether a function of the answer's code merges sorted lists; the code runs in a process of its own."""
    code = "\n".join(_CODE.findall(answer)) or answer
    rng = random.Random(0)
    cases = [[sorted(rng.choices(range(-50, 50), k=rng.randrange(9))) for _ in range(2)] for _ in range(_NUM_CASES)]
    expected = [sorted([*first, *second]) for first, second in cases]
    return any(_run(code, number, cases) == expected for number in (-1, 0))


def _run(code: str, number: int, cases: list[list[list[int]]]) -> object:
    """What the code's function of this number returns for each pair of lists; None where it fails."""
    command = [sys.executable, "-I", "-c", _CALL.replace("NUMBER", str(number))]
    try:
        done = subprocess.run(
            command,
            input=f"{json.dumps(code)}\n{json.dumps(cases)}\n",
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError):
        return None
