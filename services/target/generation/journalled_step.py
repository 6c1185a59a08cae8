"""JournalledStep: lets those who follow the prefix cache know what each step has changed."""

from services.engine.cache.block_manager import BlockManager
from services.engine.cache.cache_journal import CacheJournal, Medium
from services.engine.cache.kv_offload import KvOffload
from services.engine.config import ConfigError, EngineConfig
from services.engine.loop import Worker
from services.target.generation.journal_reader import Ask, OwnJournalReader


def with_journal(
    worker: Worker, config: EngineConfig, blocks: BlockManager, offload: KvOffload | None, ask: Ask
) -> tuple[Worker, OwnJournalReader | None]:
    """Return the worker, and if others may follow the prefix cache, which must be empty, what reads its journal.

    Raises ConfigError if the journal would mislead.
    """
    if not config.kv_events:
        return worker, None
    if blocks.has_states:  # then a block is useful only up to a state that was kept
        raise ConfigError("kv_events must not be set for a model whose layers carry states")
    journal = CacheJournal(Medium.DISK if config.kv_offload_dir else Medium.HOST)
    blocks.report_to(journal)
    return JournalledStep(worker, journal, offload), OwnJournalReader(journal, ask)


class JournalledStep:
    """A worker of the engine's loop."""

    def __init__(self, worker: Worker, journal: CacheJournal, offload: KvOffload | None) -> None:
        self._worker, self._journal, self._offload = worker, journal, offload

    def step(self) -> bool:
        """Do one step of work, and publish what it and the commands before it have changed."""
        has_worked = self._worker.step()
        if self._offload is not None and self._offload.store.problem:
            self._journal.drop_pages()
        self._journal.publish()
        return has_worked

    def abandon(self, message: str) -> None:
        """Fail all requests with this message."""
        self._worker.abandon(message)
