"""Engine: a loaded model's engine as it is seen where requests are served, and the drafts of the model."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.grammar.process import GrammarProcess
from services.engine.loop import Pulse
from services.engine.lora.adapter import Adapter
from services.engine.lora.adapter_set import AdapterSet
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from services.target.generation.engine_facts import EngineFacts
from services.target.generation.engine_figures import EngineFigures, EngineLoad, SequenceFigures
from services.target.generation.journal_reader import JournalReader
from services.target.sequence.generation import Generation
from services.target.speculation.link.draft_links import DraftLinks


class Engine(Protocol):
    """Generations are known by their numbers. Methods that say so may take long and are not for the event loop."""

    @property
    def facts(self) -> EngineFacts:
        """What stays the same while it is loaded."""

    @property
    def checkpoint(self) -> Checkpoint:
        """The model's files."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""

    @property
    def adapters(self) -> AdapterSet:
        """The adapters that requests may name."""

    @property
    def journal(self) -> JournalReader | None:
        """What its prefix cache stores and removes, if `kv_events` is set."""

    @property
    def pulse(self) -> Pulse:
        """Signs of life of the thread that computes."""

    @property
    def load(self) -> EngineLoad:
        """What it has to do now."""

    def new_grammar_process(self) -> GrammarProcess:
        """Return a new process that tries grammars for the model."""

    async def submit(self, requests: Seq[Request]) -> list[Generation]:
        """Begin the generations of requests that share a prompt, to be read on the running event loop.

        Raises ContinuationError if received tokens are not the generation's.
        """

    def cancel(self, number: int) -> None:
        """Drop a generation after the cancellation of its call; its blocks are free before the next step, unless it
        pins them.
        """

    def hold(self, number: int) -> None:
        """Keep the blocks that an ended generation pins findable in the prefix cache, even after it was cleared."""

    def let_go(self, number: int) -> None:
        """Release the blocks that a generation pins, whether it has ended or not."""

    def abandon(self, message: str) -> None:
        """End all generations with an error after which a client may continue on another server."""

    def abort(self, number: int, message: str) -> None:
        """End a generation for good after its last token, with an error for its reader."""

    def load_adapter(self, name: str, folder: Path) -> Adapter:
        """Load an adapter; may take long. Raises CheckpointError."""

    def figures(self) -> EngineFigures:
        """What it has counted so far; may take long."""

    def sequences(self) -> Mapping[int, SequenceFigures]:
        """How far the generations are, by their numbers; may take long."""

    def forget_cache(self) -> "Future[int]":
        """Empty the prefix cache, and return how many blocks could be found in it."""

    def close(self) -> None:
        """End it; streams that still have a reader end with an error. May take long."""


class Drafts(Protocol):
    """Changes the drafts of a model while it is loaded, on one event loop."""

    async def add(self, address: str) -> None:
        """Add a draft; raises ValueError if it is one of the drafts already, or if its address is not allowed."""

    async def remove(self, address: str) -> None:
        """Remove a draft; raises ValueError if it is none of the drafts."""

    async def absences(self) -> Mapping[str, str]:
        """For every address the reason why its draft is not linked; empty if it is."""

    def links(self) -> DraftLinks:
        """The state of all links; may take long, and is not for the event loop."""
