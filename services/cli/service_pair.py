"""ServicePair: a target and its draft, if it has one, running on this machine's cores."""

import os
import tempfile
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from services.cli.service_process import ServiceProcess
from services.engine.checkpoint.attached.drafter_kind import is_drafter_folder
from services.engine.config import CPU, ConfigError
from services.engine.hub.fetch import fetch
from services.engine.hub.hub_name import ModelSource

_FRACTION = "--gpu-memory-fraction"
_DRAFT_FRACTION = "0.3"  # of a GPU that a draft shares with its target; it starts first, the target takes the rest


@dataclass(frozen=True, slots=True)
class ModelPair:
    """The models of a target, one or several, and of what predicts for it: a draft, a head, or nothing."""

    target: ModelSource
    draft: ModelSource | None
    name: str = ""  # the name that clients use for the target's model; "": the default of `outrider target`
    further: tuple[tuple[str, ModelSource], ...] = ()  # further models of the target: name, source
    head: ModelSource | None = None  # attached to the target's model

    def fetched(self) -> "ModelPair":
        """Download the models that are not on this machine; returns the pair with each hub name pinned to its commit.

        A draft that is an attached drafter becomes the head. Raises HubError if a model cannot be downloaded,
        CheckpointError, and ConfigError for the head of several models.
        """
        pair = self
        if self.draft is not None:
            draft = fetch(self.draft)
            is_head = is_drafter_folder(draft.path)
            if is_head and self.further:
                remedy = "give it as -- --head NAME=HEAD"
                raise ConfigError(f"draft is an attached drafter, which belongs to one of the models; {remedy}")
            pair = replace(self, draft=None, head=draft.source) if is_head else replace(self, draft=draft.source)
        further = tuple((name, fetch(source).source) for name, source in self.further)
        return replace(pair, target=fetch(self.target).source, further=further)

    @property
    def predictor(self) -> str:
        """What predicts the target's tokens beside the lookup; empty if nothing does."""
        return "the draft" if self.draft else "the head" if self.head else ""

    @property
    def sources(self) -> list[ModelSource]:
        """All models that have weights of their own; without a head."""
        return [source for source in (self.target, self.draft, *(each for _, each in self.further)) if source]

    @property
    def target_options(self) -> list[str]:
        """The options of `outrider target` for its models."""
        named = [("--model", self.name, self.target), *(("--model", *each) for each in self.further)]
        if self.head is not None:
            named.append(("--head", self.name, self.head))
        return [part for flag, name, source in named for part in (flag, f"{name}={source}" if name else str(source))]


@dataclass(frozen=True, slots=True)
class CoreAssignment:
    """The cores that a target and its draft run on, by their numbers."""

    target: Seq[int]
    draft: Seq[int]

    @classmethod
    def shared(cls) -> "CoreAssignment":
        """Return the placement in which both use all cores of this process, and take turns.

        It is the default, since a memory limits both: two that run at the same time share its bandwidth, and what the
        draft predicts ahead is often in vain.
        """
        cores = sorted(os.sched_getaffinity(0))
        return cls(cores, cores)

    @classmethod
    def apart(cls) -> "CoreAssignment":
        """Return the placement in which each has half of the cores; a single core is shared."""
        cores = sorted(os.sched_getaffinity(0))
        half = len(cores) // 2
        return cls(cores[:half] or cores, cores[half:])

    def describe(self) -> str:
        """Return the placement and its reason, for the log."""
        if self.target == self.draft:
            return f"target and draft take turns on cores {_ranges(self.target)}, since one memory limits both"
        return (
            f"target on cores {_ranges(self.target)}, draft on cores {_ranges(self.draft)}, as asked for with --cores"
        )


PLACEMENTS = {"shared": CoreAssignment.shared, "apart": CoreAssignment.apart}


def _ranges(cores: Seq[int]) -> str:
    """Return numbers like 0-3,8."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


@dataclass(frozen=True, slots=True)
class ServicePair:
    """A running target, and its draft if it has one."""

    target: ServiceProcess
    draft: ServiceProcess | None


def demo_models(*, with_head: bool = False) -> ModelPair | None:
    """Return the demo model with its draft, or with its head, of the checkout in the working directory or around this
    file; None if there is none.
    """
    for root in (Path.cwd(), Path(__file__).parents[2]):
        if (folder := root / "models" / "demo").is_dir():
            pair = ModelPair(folder / "target", folder / "draft")
            return replace(pair, draft=None, head=folder / "head") if with_head else pair
    return None


def device_of_draft(device: str, draft_device: str | None) -> str:
    """Return a draft's device, by default its target's, the last of several."""
    return draft_device or device.rpartition(",")[2]


def options_of_draft(device: str, draft_device: str, weights: str) -> list[str]:
    """Return the options for a draft's device and weights; on the target's GPU it gets a small share of the memory."""
    shares = [_FRACTION, _DRAFT_FRACTION] if draft_device != CPU and draft_device in device.split(",") else []
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
    serves_early: bool = False,
) -> Iterator[ServicePair]:
    """Start the services with further options of their commands; yields them once the target serves.

    By default both run on all cores, and the target finds its draft there. With `serves_early` the draft begins to load
    only then, and `draft.wait_until_serving` waits for it; but not if `draft_options` give it a fraction of a GPU,
    since the target takes the rest. Raises ServiceFailedError if a service does not start.
    """
    cores, draft = cores or CoreAssignment.shared(), None
    is_last = serves_early and _FRACTION not in draft_options
    with tempfile.TemporaryDirectory(prefix="outrider-") as folder, ExitStack() as drafts:
        address = f"unix:{folder}/draft"
        command = ["--model", str(models.draft), "--listen", address, *draft_options]
        start_draft = partial(ServiceProcess, "draft", command, cores=cores.draft, log=log)
        if models.draft is not None and not is_last:
            draft = drafts.enter_context(start_draft())
            draft.wait_until_serving()
        linked = ["--draft", address] if models.draft is not None else []
        command = [*models.target_options, "--listen", listen, *options, *linked]
        with ServiceProcess("target", command, cores=cores.target, log=log) as target:
            target.wait_until_serving()
            if models.draft is not None and is_last:
                draft = drafts.enter_context(start_draft())
            yield ServicePair(target, draft)
