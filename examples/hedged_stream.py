"""A stream that a slow server does not hold up: `python hedged_stream.py ADDRESS ADDRESS`, two replicas of a model."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["outrider-client"]
# ///

import asyncio
import sys

from outrider import AsyncClient

HEDGE_AFTER = 0.5  # seconds without a token: more than one usually takes, so that few requests are asked twice


async def main(*addresses: str) -> None:
    """Print an answer; wherever one server stands still, the other continues with the same bytes."""
    async with AsyncClient(*addresses, hedge_after=HEDGE_AFTER) as client:
        async with client.stream("def quicksort(items):", max_tokens=60, seed=7) as stream:
            async for chunk in stream:
                print(chunk.text, end="", flush=True)
        print(f"\n{len(stream.result.token_ids)} tokens, continued by another server {stream.result.resumed} times")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ("localhost:50051", "localhost:50061")))
