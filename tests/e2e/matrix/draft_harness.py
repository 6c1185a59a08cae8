"""DraftHarness: what stands where a target looks for its draft, and the faults injected into it."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from benchmarks.drafts.scripted_draft import ScriptedDraft
from services.engine.decoder.native import isas
from tests.e2e.harness.draft_rig import Service, until
from tests.e2e.harness.garbage_draft import never_right
from tests.e2e.harness.link_proxy import LinkProxy
from tests.e2e.harness.models import draft_folder, folder
from tests.e2e.matrix.cells import Cell
from tests.e2e.matrix.probe import Probe
from tests.e2e.matrix.processors import GPU, service_options
from tests.e2e.matrix.streams import structure_of
from tests.harness.network.free_port import free_port

_DELAY_SECONDS = 0.005  # each way
_LINK_SECONDS = 300  # until a large draft is loaded

Said = Mapping[int, Collection[int]]  # the tokens that any stream has at a position


class DraftHarness:
    """Sets one target's draft up for a cell; a draft process stays for the next cell that wants the same."""

    def __init__(self, address: str, probe: Probe, logs: Path) -> None:
        """`address` is where the target looks, `probe` is the target's."""
        self._near, self._far = address, f"127.0.0.1:{free_port()}"
        self._probe = probe
        self._logs = logs
        self._draft: Service | None = None
        self._shown: tuple[Path | str, ...] | None = None

    @asynccontextmanager
    async def running(self, cell: Cell, said: Said) -> AsyncIterator[None]:
        """Enter once target and draft are linked, leave once nothing of the cell's streams is left in the draft.

        `said` has the tokens that a garbage draft must not predict. Raises TimeoutError.
        """
        async with AsyncExitStack() as stack:
            kind = cell.predictions if cell.predictions in {"random", "reworded"} else "good"
            if cell.predictions == "garbage":
                self.clear()
                await stack.enter_async_context(
                    ScriptedDraft(self._near, never_right(said, structure_of(cell.setup.model)))
                )
            elif cell.predictions == "delayed":
                self._show(kind, cell, self._far)
                await stack.enter_async_context(LinkProxy(self._near, self._far, delay=_DELAY_SECONDS))
            elif cell.predictions == "absent":
                self.clear()
            else:
                self._show(kind, cell, self._near)
            if cell.predictions != "absent":
                await self.linked()
            yield
            if (draft := self._draft) is not None:
                draft.resume()
                await until(lambda: draft.num_used_blocks == 0)

    def clear(self) -> None:
        """End the draft, if there is one."""
        if self._draft is not None:
            self._draft.kill()
        self._draft = self._shown = None

    def kill_and_start_again(self) -> int:
        """SIGKILL, and a new process at the same place; returns how many links there have been, for `linked`."""
        num_links = self._probe.read()["links"]
        self._shown_draft.kill()
        self._shown_draft.start()
        return num_links

    def pause(self) -> None:
        """Stop the draft's process by SIGSTOP."""
        self._shown_draft.pause()

    def resume(self) -> None:
        """Let the draft's process run again by SIGCONT."""
        self._shown_draft.resume()

    async def linked(self, after: int = 0) -> None:
        """Return once the target is linked, `after` so many links; raises TimeoutError."""

        def is_linked() -> bool:
            counts = self._probe.read()
            return counts["links"] > max(after, counts["lost_links"])

        await until(is_linked, _LINK_SECONDS)

    def _show(self, kind: str, cell: Cell, address: str) -> None:
        # A draft for another vocabulary runs on CPUs only.
        processor = isas()[0] if kind == "reworded" and cell.setup.isa == GPU else cell.setup.isa
        options = [
            *service_options(processor),
            "--kv-blocks",
            "128",
            "--weights",
            cell.draft_weights,
            "--kv",
            cell.draft_kv,
        ]
        if cell.draft_head == "short":
            options += ["--head-shortlist", "384"]
        if kind == "reworded":
            options += ["--target-tokenizer", str(folder(cell.setup.model))]
        model = draft_folder(cell.setup.model, kind)
        shown: tuple[Path | str, ...] = (model, address, *options)
        if self._shown != shown:
            self.clear()
            self._draft = Service("draft", model, self._logs, *options, address=address)
            self._draft.start()
            self._shown = shown

    @property
    def _shown_draft(self) -> Service:
        assert self._draft is not None
        return self._draft
