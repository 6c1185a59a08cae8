"""How much prompts slow down decoding streams: `python -m benchmarks.beside_prompts TARGET`.

Some streams decode while prompts arrive one after the other, each when the one before has its first token. Printed for
each `--prompt-slowdown` of the server: the gaps between a stream's tokens, the gaps while no prompt arrives, and the
time of each prompt to its first token. The target has all cores.
"""

import argparse
import json
import statistics
import threading
import time
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

from outrider import Client
from services.cli.service_pair import CoreAssignment
from services.cli.service_process import ServiceProcess

_ALONE = 3.0  # seconds before the first prompt arrives


def main() -> None:
    """Print a line of JSON for each slowdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("--weights", default="int8", help="(%(default)s)")
    parser.add_argument("--slowdowns", nargs="+", default=["inf", "2"], help="measured in turn (%(default)s)")
    parser.add_argument("--streams", type=int, default=4, help="streams that decode (%(default)s)")
    parser.add_argument("--prompts", type=int, default=3, help="prompts that arrive (%(default)s)")
    parser.add_argument("--prompt-tokens", type=int, default=2048, help="tokens of each such prompt (%(default)s)")
    parser.add_argument("--log", type=Path, default=Path("/dev/null"))
    arguments = parser.parse_args()
    for slowdown in arguments.slowdowns:
        with _serving(arguments, slowdown) as client:
            print(json.dumps({"prompt_slowdown": slowdown, **_measure(client, arguments)}), flush=True)


@contextmanager
def _serving(arguments: argparse.Namespace, slowdown: str) -> Iterator[Client]:
    command = ["--model", str(arguments.target), "--listen", "127.0.0.1:0", "--weights", arguments.weights]
    command += ["--prompt-slowdown", slowdown, "--no-prefix-cache"]
    with ExitStack() as stack:
        log = stack.enter_context(arguments.log.open("a"))
        target = stack.enter_context(ServiceProcess("target", command, cores=CoreAssignment.shared().target, log=log))
        target.wait_until_serving()
        yield stack.enter_context(Client(target.address))


def _measure(client: Client, arguments: argparse.Namespace) -> dict[str, object]:
    is_over = threading.Event()
    begun = threading.Barrier(arguments.streams + 1)
    with ThreadPoolExecutor(arguments.streams) as pool:
        streams = [pool.submit(_decode, client, number, begun, is_over) for number in range(arguments.streams)]
        begun.wait()
        time.sleep(_ALONE)
        arrival = time.monotonic()
        waits = [_first_token_seconds(client, arguments.prompt_tokens, number) for number in range(arguments.prompts)]
        is_over.set()
        moments = [stream.result() for stream in streams]
    alone = [gap for each in moments for gap in _gaps([moment for moment in each if moment < arrival])]
    beside = [gap for each in moments for gap in _gaps([moment for moment in each if moment >= arrival])]
    return {
        "alone_median": round(statistics.median(alone), 4),
        "beside_median": round(statistics.median(beside), 4),
        "beside_p99": round(statistics.quantiles(beside, n=100)[98], 4),
        "longest": round(max(beside), 4),
        "tokens_beside": len(beside),
        "first_token_seconds": [round(wait, 2) for wait in waits],
    }


def _decode(client: Client, number: int, begun: threading.Barrier, is_over: threading.Event) -> list[float]:
    """Return the times at which a stream's tokens arrived, until `is_over` is set."""
    moments: list[float] = []
    prompt = _token_ids(16, number)
    with client.stream(prompt, max_tokens=4096, ignore_eos=True, speculation="never") as stream:
        for _ in stream:
            moments.append(time.monotonic())
            if len(moments) == 1:
                begun.wait()
            if is_over.is_set():
                return moments
    raise RuntimeError("a stream has ended before all prompts had come: ask for fewer")


def _first_token_seconds(client: Client, num_tokens: int, number: int) -> float:
    began = time.monotonic()
    client.generate(_token_ids(num_tokens, 100 + number), max_tokens=1)
    return time.monotonic() - began


def _token_ids(count: int, seed: int) -> list[int]:
    return [300 + (7919 * (seed * 4001 + place) ** 2) % 20_000 for place in range(count)]


def _gaps(moments: Seq[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(moments)]


if __name__ == "__main__":
    main()
