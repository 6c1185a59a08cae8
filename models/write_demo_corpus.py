"""Let a published model write what the demo models learn from, through a running target service of this repository.

    outrider target --model Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF:qwen2.5-coder-0.5b-instruct-q4_k_m.gguf --weights int8
    python models/write_demo_corpus.py --count 8000 written.jsonl

Document i answers task i (demo_tasks.py) with seed i, so the same server writes the same text again, however many are
asked for at a time. What is in the file already is not asked for again: a stopped run goes on.
"""

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

from demo_tasks import task

from outrider import AsyncClient, Message

TEMPERATURE, TOP_P = 0.8, 0.95
MAX_TOKENS = 240
ENDS = ("\n```", "\n# Example", "\n# Test", "\nprint(", "\nif __name__")  # nothing after them is worth learning from


async def write(client: AsyncClient, number: int) -> dict[str, object]:
    """The document of a number: its answer, and whether it came to its end."""
    result = await client.generate(
        [Message("user", task(number).question)],
        temperature=TEMPERATURE,
        top_p=TOP_P,
        max_tokens=MAX_TOKENS,
        seed=number,
        stop=ENDS,
        speculation="never",
    )
    whole = len(result.token_ids) < MAX_TOKENS
    return {"number": number, "tokens": len(result.token_ids), "whole": whole, "text": result.text}


def missing(path: Path, count: int) -> Iterator[int]:
    """Numbers below the count that have no document in the file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    known = {json.loads(line)["number"] for line in lines}
    return (number for number in range(count) if number not in known)


async def write_all(address: str, path: Path, count: int, at_once: int) -> None:
    """Append the missing documents to the file, as they come."""
    numbers = missing(path, count)
    started, tokens, documents = time.monotonic(), 0, itertools.count(1)

    async def work() -> None:
        nonlocal tokens
        for number in numbers:
            document = await write(client, number)
            file.write(json.dumps(document) + "\n")
            file.flush()
            tokens += int(str(document["tokens"]))
            if (done := next(documents)) % 100 == 0:
                print(f"{done} documents, {tokens / (time.monotonic() - started):.0f} tokens/s", flush=True)

    with path.open("a", encoding="utf-8") as file:
        async with AsyncClient(address) as client:
            await asyncio.gather(*(work() for _ in range(at_once)))


def main() -> None:
    """Write as many documents as the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="JSON lines; what is missing is appended")
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--count", type=int, default=8000)
    parser.add_argument("--at-once", type=int, default=64)
    arguments = parser.parse_args()
    asyncio.run(write_all(arguments.server, arguments.file, arguments.count, arguments.at_once))


if __name__ == "__main__":
    main()
