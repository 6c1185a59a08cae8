"""Work that changes a prefix cache in all ways, and whether an index of it is right."""

from typing import Any

from services.engine.cache.cache_journal import CacheJournal
from tests.harness.cache_index import CacheIndex, cached_texts
from tests.harness.servers.server import RunningTarget
from tests.rpc.harness.requests import stream, stream_request


def generate(target: RunningTarget, text: str, **fields: Any) -> None:
    stream(target, stream_request(prompt={"text": text}, stop={"max_tokens": 40, "ignore_eos": True}, **fields))


def work(target: RunningTarget) -> None:
    """Share prefixes, evict, and use adapters and salts."""
    for turn in range(4):
        generate(target, "one two three four five six seven eight " * 3 + "nine " * turn)
        generate(target, f"{turn} " * 60, cache={"salt": "some"} if turn % 2 else {})
    generate(target, "one two three four five six seven eight " * 3, lora="a")


def _told_scope(scope: str) -> str:
    """Without the hash of an adapter's files."""
    adapter, _, salt = scope.partition("\0")
    return f"{adapter.rpartition(' ')[0]}\0{salt}"


def is_as_it_is(index: CacheIndex, target: RunningTarget) -> bool:
    found = target.on_engine_thread(lambda: cached_texts(target.engine.blocks))
    return index.texts() == {(_told_scope(scope), tokens) for scope, tokens in found}


def tell_much(target: RunningTarget) -> None:
    """Note more than any connection holds; of blocks that are not there."""
    journal = journal_of(target)

    def change() -> None:
        for block in range(1000, 3000):
            journal.store(("\0", (1 << 30,) * 500), block)
            journal.publish()

    target.on_engine_thread(change)


def journal_of(target: RunningTarget) -> CacheJournal:
    """The journal that the target's engine writes."""
    reader = target.engine.journal
    assert reader is not None
    return reader._journal
