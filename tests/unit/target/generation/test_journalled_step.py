"""JournalledStep: after an error of the disk no subscriber believes that pages are kept there."""

from services.engine.cache.cache_journal import CacheJournal, Medium, Removed, Stored
from services.engine.cache.kv_offload import KvOffload
from services.engine.cache.memory_pages import MemoryPages
from services.engine.cache.page_key import PageKey, scope_digest
from services.target.generation.journalled_step import JournalledStep


class Idle:
    """A worker with nothing to do."""

    def step(self) -> bool:
        return False

    def abandon(self, message: str) -> None:
        raise AssertionError(message)


class Failing(MemoryPages):
    """A store whose disk may fail."""

    problem = ""


def test_pages_are_removed_after_an_error_of_the_disk() -> None:
    journal, store = CacheJournal(Medium.DISK), Failing(num_slots=2, page_bytes=1)
    store.report_to(journal)
    offload = KvOffload(store, read_block=lambda block, page: None, write_block=lambda block, page: None)
    step = JournalledStep(Idle(), journal, offload)
    journal.store(("", (1, 2)), 0)
    journal.evict(0)
    store.put(PageKey.after(scope_digest(""), (1, 2)), lambda page: None)
    assert not step.step()
    (before,) = journal._batches
    stored = before.events[-1]
    assert isinstance(stored, Stored)
    assert stored.medium is Medium.DISK
    store.problem = "no space is left"
    step.step()
    assert [batch.events for batch in journal._batches] == [before.events, (Removed(stored.hash, Medium.DISK),)]
