"""Useless drafts, each in a process of its own: `python -m benchmarks.drafts.bad_draft KIND`."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from benchmarks.drafts.scripted_draft import (
    HELLO,
    Behaviour,
    Said,
    ScriptedDraft,
    commits_in,
    end_of,
    prediction,
    replying,
)
from outrider.v1.draft_pb2 import Commit, DraftRequest, DraftResponse

_DELAY = 0.5  # seconds before a slow draft's answer
_FLOOD = 2000  # messages in answer to each commit


async def _slow(requests: AsyncIterator[DraftRequest]) -> AsyncIterator[Said]:
    yield HELLO
    await anext(requests)  # the target's own hello
    async for request in requests:
        await asyncio.sleep(_DELAY)
        for commit in commits_in(request):
            if commit.wanted:
                yield _run(commit, commit.wanted)


def _run(commit: Commit, length: int) -> DraftResponse:
    end = end_of(commit)
    return prediction(commit.sequence_id, epoch=end, position=end, token_ids=[1000] * length)


BEHAVIOURS: dict[str, Behaviour] = {
    "silent": replying(lambda _commit, _count: ()),
    "slow": _slow,
    "flooding": replying(lambda commit, _count: (_run(commit, 4) for _ in range(_FLOOD))),
}


@contextmanager
def running_bad_draft(kind: str) -> Iterator[str]:
    """Start a draft of this kind; yields its address."""
    command = [sys.executable, "-m", "benchmarks.drafts.bad_draft", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def _serve(kind: str) -> None:
    async with ScriptedDraft("127.0.0.1:0", BEHAVIOURS[kind]) as draft:
        print(f"127.0.0.1:{draft.port}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
