"""A worker that does what each question says, for the tests of WorkerProcess."""

import os
import time
from collections.abc import Callable
from typing import Any

from services.engine.worker_process import serve


def main() -> None:
    """Answer until standard input ends."""
    serve(_make)


def _make(setup: str) -> Callable[[list[Any]], object]:
    def answer(question: list[Any]) -> object:
        match question:
            case ["say", value]:
                return [setup, value, os.getpid()]
            case ["loop"]:
                while True:
                    pass
            case ["sleep"]:
                time.sleep(600)
            case ["allocate", int(size)]:
                return len(bytearray(size))
            case ["give", int(size)]:
                return "x" * size
            case ["die", int(code)]:
                os._exit(code)
            case ["babble"]:
                os.write(1, b"\xff" * 64)
        return None

    return answer
