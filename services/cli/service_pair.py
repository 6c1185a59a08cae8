"""ServicePair: a draft and its target, side by side on this machine's cores."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from services.cli.service_process import ServiceProcess


@dataclass(frozen=True, slots=True)
class ModelPair:
    """The folders of a target's model and of its draft's, if it has one."""

    target: Path
    draft: Path | None


def demo_models() -> ModelPair | None:
    """The demo pair of the checkout that we run in or from, if there is one."""
    for root in (Path.cwd(), Path(__file__).parents[2]):
        if (folder := root / "models" / "demo").is_dir():
            return ModelPair(folder / "target", folder / "draft")
    return None


@contextmanager
def running_pair(
    models: ModelPair,
    *,
    listen: str,
    options: Sequence[str] = (),
    draft_options: Sequence[str] = (),
    log: IO[str] | None = None,
) -> Iterator[ServiceProcess]:
    """The target, serving; with a draft beside it, each has half of the cores. Both have further options.

    Raises ServiceFailedError where one of them does not start.
    """
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    with ExitStack() as stack:
        target_options = ["--model", str(models.target), "--listen", listen, *options]
        if models.draft is not None:
            own_options = ["--model", str(models.draft), "--listen", "127.0.0.1:0", *draft_options]
            draft = stack.enter_context(ServiceProcess("draft", own_options, cores=cores[half:], log=log))
            draft.wait_until_serving()
            target_options += ["--draft", draft.address]
            cores = cores[:half] or cores
        target = stack.enter_context(ServiceProcess("target", target_options, cores=cores, log=log))
        target.wait_until_serving()
        yield target
