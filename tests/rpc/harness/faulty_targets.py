"""Targets in processes of their own in which something goes wrong that no request and no file brings about."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from services.target.generation.engine import TargetEngine
from services.target.generation.step import TargetStep
from tests.harness.processes.forked_process import ForkedProcess
from tests.harness.processes.warm_commands import WarmProcess, run
from tests.harness.servers.server import wait_until
from tests.rpc.harness.commands import SMALL


def fails(arguments: list[str]) -> int:
    """Be a target whose engine breaks down after some steps."""
    step, counted = TargetStep.step, []

    def break_down(self: TargetStep) -> bool:
        counted.append(self)
        if len(counted) > 50:
            raise RuntimeError("broken on purpose")
        return step(self)

    TargetStep.step = break_down  # type: ignore[method-assign]
    return run(arguments)


def hangs(arguments: list[str]) -> int:
    """Be a target that comes back from some steps, and then from none."""
    compute, counted = TargetStep._compute, []

    def hang(self: TargetStep, *batch: Any) -> Any:
        counted.append(self)
        if len(counted) > 60:
            time.sleep(3600)
        return compute(self, *batch)

    TargetStep._compute = hang  # type: ignore[assignment,method-assign]
    return run(arguments)


def loads_forever(arguments: list[str]) -> int:
    """Be a target whose model is never loaded."""

    def load(*_: object, **__: object) -> None:
        time.sleep(600)

    TargetEngine.open = load  # type: ignore[assignment,method-assign]
    return run(arguments)


@contextmanager
def faulty_target(be: Callable[[list[str]], int], model: Path, folder: Path, *options: str) -> Iterator[WarmProcess]:
    """Start one of them, which writes to files in a folder; it is killed at the end of the block."""
    stdout, stderr = folder / "out", folder / "err"
    arguments = ["target", "--model", str(model), *SMALL, "--listen", "127.0.0.1:0", *options]
    process = ForkedProcess(be, arguments, stdout=stdout, stderr=stderr)
    try:
        wait_until(lambda: "listening on" in stdout.read_text())
        yield WarmProcess(process, stdout, stderr)
    finally:
        process.kill()
        process.wait()


def serving_address(target: WarmProcess) -> str:
    """Its address, once it reports that it serves."""
    wait_until(lambda: target.stdout.read_text().endswith("serving\n"))
    return target.stdout.read_text().splitlines()[0].removeprefix("listening on ")
