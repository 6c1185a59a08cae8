"""ServicePair: a target and its draft, if it has one, side by side on this machine's cores."""

import os
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from services.cli.service_process import ServiceProcess
from services.engine.config import CPU
from services.engine.hub.fetched_model import fetch
from services.engine.hub.hub_name import ModelSource

_FRACTION = "--gpu-memory-fraction"
_DRAFT_FRACTION = "0.3"  # of a GPU, for a draft beside its target; it starts first, and the target gets what is left


@dataclass(frozen=True, slots=True)
class ModelPair:
    """A target's model, or several, and its draft's, if it has one."""

    target: ModelSource
    draft: ModelSource | None
    name: str = ""  # of the target's model for clients; by default as `outrider target` has it
    further: tuple[tuple[str, ModelSource], ...] = ()  # models of the target, by their names

    def fetched(self) -> "ModelPair":
        """The same pair, with all of it on this machine and each name at the commit that was found.

        Raises HubError.
        """
        draft = fetch(self.draft).source if self.draft else None
        further = tuple((name, fetch(source).source) for name, source in self.further)
        return ModelPair(fetch(self.target).source, draft, self.name, further)

    @property
    def target_options(self) -> list[str]:
        """What tells `outrider target` its models."""
        named = ((self.name, self.target), *self.further)
        return [part for name, source in named for part in ("--model", f"{name}={source}" if name else str(source))]


@dataclass(frozen=True, slots=True)
class CoreAssignment:
    """Where a target and its draft run, as numbers of cores."""

    target: Seq[int]
    draft: Seq[int]

    @classmethod
    def shared(cls) -> "CoreAssignment":
        """A placement where both may use all cores of this process."""
        cores = sorted(os.sched_getaffinity(0))
        return cls(cores, cores)

    @classmethod
    def apart(cls) -> "CoreAssignment":
        """A placement where each has half of the cores; a single core is shared."""
        cores = sorted(os.sched_getaffinity(0))
        half = len(cores) // 2
        return cls(cores[:half] or cores, cores[half:])


@dataclass(frozen=True, slots=True)
class ServicePair:
    """The running services."""

    target: ServiceProcess
    draft: ServiceProcess | None


def demo_models() -> ModelPair | None:
    """The demo pair of the checkout that we run in or from, if there is one."""
    for root in (Path.cwd(), Path(__file__).parents[2]):
        if (folder := root / "models" / "demo").is_dir():
            return ModelPair(folder / "target", folder / "draft")
    return None


def options_of_draft(device: str, draft_device: str, weights: str) -> list[str]:
    """Where a draft computes and how it holds its weights; on the target's GPU it takes little of the memory."""
    shares = [_FRACTION, _DRAFT_FRACTION] if device == draft_device != CPU else []
    return ["--device", draft_device, "--weights", weights, *shares]


@contextmanager
def running_pair(
    models: ModelPair,
    *,
    listen: str = "127.0.0.1:0",
    options: Seq[str] = (),
    draft_options: Seq[str] = (),
    cores: CoreAssignment | None = None,
    log: IO[str] | None = None,
) -> Iterator[ServicePair]:
    """The services, both serving, with further options of their commands; by default they are placed apart.

    They load side by side, unless the draft is to have a fraction of a GPU: what it leaves is the target's.

    Raises ServiceFailedError where one of them does not start.
    """
    if cores is None:
        cores = CoreAssignment.apart() if models.draft else CoreAssignment.shared()
    with ExitStack() as stack:
        target_options = [*models.target_options, "--listen", listen, *options]
        draft = None
        if models.draft is not None:
            command = ["--model", str(models.draft), "--listen", "127.0.0.1:0", *draft_options]
            draft = stack.enter_context(ServiceProcess("draft", command, cores=cores.draft, log=log))
            draft.wait_until_listening()
            if _FRACTION in draft_options:
                draft.wait_until_serving()
            target_options += ["--draft", draft.address]
        target = stack.enter_context(ServiceProcess("target", target_options, cores=cores.target, log=log))
        if draft is not None:
            draft.wait_until_serving()
        target.wait_until_serving()
        yield ServicePair(target, draft)
