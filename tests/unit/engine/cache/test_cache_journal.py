"""The journal: who follows its batches knows what the prefix cache and the offload hold, and when it has lost some."""

import asyncio
import threading
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from services.engine.cache import cache_journal
from services.engine.cache.cache_journal import CacheJournal, EventsLostError, Medium, Stored
from services.engine.cache.page_key import PageKey
from tests.harness.cache_index import CacheIndex, cached_texts
from tests.unit.engine.cache.test_prefix_cache import Life, Pool, computed


def read(journal: CacheJournal, after: int, seconds: float = 60) -> list[cache_journal.CacheBatch]:
    return asyncio.run(journal.read(after, seconds))


def snapshot(journal: CacheJournal) -> tuple[int, list[Stored]]:
    """The last number of a snapshot, and its blocks."""
    facts = journal.begin_snapshot()
    blocks = [block for index in range(facts.last + 1 - facts.first) for block in journal.part(facts.last, index)]
    assert len(blocks) == facts.num_blocks
    return facts.last, blocks


class Followed(Life):
    """The lives of sequences, where a subscriber follows from the beginning, and others begin with snapshots."""

    @initialize(num_blocks=st.integers(1, 12), num_pages=st.integers(0, 5))
    def start(self, num_blocks: int, num_pages: int) -> None:
        super().start(num_blocks, num_pages)
        self.journal, self.index = CacheJournal(), CacheIndex()
        self.pool.report_to(self.journal)
        self.last = snapshot(self.journal)[0]

    @invariant()
    def the_subscriber_knows_what_there_is(self) -> None:
        if not hasattr(self, "journal"):
            return
        last, blocks = snapshot(self.journal)
        while self.last < last:
            for batch in read(self.journal, self.last):
                assert batch.number == self.last + 1
                self.last = batch.number
                self.index.apply(batch.events)
        assert self.index.texts() == cached_texts(self.pool)
        pages = {cache_journal._hash(key.digest) for key in self.pool.offload.store._index._slots}
        assert self.index.hashes(Medium.HOST) == pages
        another = CacheIndex()
        another.apply(blocks)
        assert another.copies == self.index.copies


TestFollowed = Followed.TestCase
TestFollowed.settings = settings(max_examples=35, stateful_step_count=40, derandomize=True, database=None)


def test_a_block_has_its_parents_hash_and_its_scope() -> None:
    pool, journal = Pool(8), CacheJournal()
    pool.report_to(journal)
    before = snapshot(journal)[0]
    for scope in ("one\0", "two\0"):
        computed(pool, [*range(10)], scope=scope)
    journal.publish()
    (batch,) = read(journal, before)
    first, second, *others = batch.events
    assert isinstance(first, Stored)
    assert isinstance(second, Stored)
    assert (first.parent, first.token_ids, first.scope, first.medium) == (None, (0, 1, 2, 3), "one\0", Medium.DEVICE)
    assert (second.parent, second.token_ids) == (first.hash, (4, 5, 6, 7))
    assert {each.hash for each in others if isinstance(each, Stored)}.isdisjoint({first.hash, second.hash})
    assert abs(batch.time - time.time()) < 3600


def test_hashes_are_the_same_in_another_process() -> None:
    hashes = []
    for _ in range(2):
        pool, journal = Pool(8), CacheJournal()
        pool.report_to(journal)
        computed(pool, [*range(10)])
        hashes.append([each.hash for each in snapshot(journal)[1]])
    assert hashes[0] == hashes[1]


def changed(journal: CacheJournal, times: int = 1) -> None:
    """Publish batches of one event each."""
    for block in range(times):
        journal.store(("", (block,)), block)
        journal.publish()


def test_a_reader_waits_for_the_next_batch_without_polling() -> None:
    journal = CacheJournal()
    last = snapshot(journal)[0]
    assert read(journal, last, seconds=0) == []

    async def wait() -> list[cache_journal.CacheBatch]:
        waiting = asyncio.create_task(journal.read(last, 60))
        while not journal._waiting:
            await asyncio.sleep(0)
        threading.Thread(target=changed, args=(journal,)).start()
        return await waiting

    assert [batch.number for batch in asyncio.run(wait())] == [last + 1]
    assert not journal._waiting


def test_a_reader_that_leaves_is_forgotten() -> None:
    journal = CacheJournal()

    async def leave() -> None:
        waiting = asyncio.create_task(journal.read(snapshot(journal)[0], 60))
        while not journal._waiting:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(leave())
    assert not journal._waiting
    changed(journal)


def test_slow_readers_lose_batches_beyond_so_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_journal, "_MOST_EVENTS", 10)  # with one for each batch
    journal = CacheJournal()
    last = snapshot(journal)[0]
    changed(journal, times=5)
    assert [batch.number for batch in read(journal, last)] == [last + 1 + index for index in range(5)]
    changed(journal)
    with pytest.raises(EventsLostError):
        read(journal, last)
    assert len(read(journal, last + 1)) == 5


@pytest.mark.parametrize("off", [1, -1, 1 << 30])
def test_numbers_that_are_not_known_are_lost(off: int) -> None:
    journal = CacheJournal()
    with pytest.raises(EventsLostError):
        read(journal, journal._number + off)


def test_a_later_process_has_later_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = CacheJournal()
    changed(earlier, times=100)
    now = time.time()
    monkeypatch.setattr(cache_journal.time, "time", lambda: now + 1)
    with pytest.raises(EventsLostError):
        read(CacheJournal(), snapshot(earlier)[0])


def test_pages_of_an_earlier_process_are_not_told() -> None:
    journal = CacheJournal(Medium.DISK)
    journal.hold_page(PageKey(b"x" * 32, (1, 2)))
    journal.drop_page(PageKey(b"x" * 32, (1, 2)))
    assert snapshot(journal)[1] == []


def test_a_reader_of_a_part_of_a_snapshot_cannot_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the oldest batches are gone; others see its numbers as empty batches."""
    monkeypatch.setattr(cache_journal, "_PART_BLOCKS", 2)
    journal = CacheJournal()
    changed(journal, times=5)
    before = journal._number
    facts = journal.begin_snapshot()
    assert (facts.first, facts.last, facts.num_blocks) == (before + 1, before + 3, 5)
    assert [each.events for each in read(journal, before)] == [(), (), ()]
    changed(journal)
    for amid in (facts.first, facts.first + 1):
        with pytest.raises(EventsLostError):
            read(journal, amid)
    assert [each.number for each in read(journal, facts.last)] == [facts.last + 1]
    monkeypatch.setattr(cache_journal, "_MOST_EVENTS", 6)
    changed(journal)
    for gone in (before, facts.first, facts.first + 1):
        with pytest.raises(EventsLostError):
            read(journal, gone)
    assert len(read(journal, facts.last)) == 2


def test_many_events_of_a_step_are_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_journal, "_BATCH_EVENTS", 4)
    monkeypatch.setattr(cache_journal, "_READ_EVENTS", 8)
    journal = CacheJournal()
    last = journal._number
    for block in range(10):
        journal.store(("", (block,)), block)
    journal.publish()
    assert [len(each.events) for each in read(journal, last)] == [4, 4]
    assert [len(each.events) for each in read(journal, last + 2)] == [2]


def test_only_so_many_snapshots_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_journal, "_MOST_SNAPSHOTS", 2)
    journal = CacheJournal()
    lasts = [journal.begin_snapshot().last for _ in range(3)]
    journal.end_snapshot(lasts[2])
    for last in (lasts[0], lasts[2]):
        with pytest.raises(EventsLostError):
            journal.part(last, 0)
    assert journal.part(lasts[1], 0) == []
    assert not journal._snapshots


def test_pages_of_a_disk_that_has_failed_are_removed() -> None:
    pool, journal = Pool(2, num_pages=4), CacheJournal(Medium.DISK)
    pool.report_to(journal)
    for first in (0, 20):
        pool.release(computed(pool, [*range(first, first + 8)]))
    index = CacheIndex()
    index.apply(snapshot(journal)[1])
    held = index.hashes(Medium.DISK)
    last = journal._number
    journal.drop_pages()
    journal.publish()
    for batch in read(journal, last):
        index.apply(batch.events)
    assert held
    assert not index.hashes(Medium.DISK)
