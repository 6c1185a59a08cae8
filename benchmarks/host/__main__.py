"""What the host's own work costs for each token: `python -m benchmarks.host`.

Many streams of a model that takes hardly any time are read at once, by RPC and by HTTP, without and with predictions of
a draft that is always right. For each setting it prints the tokens per second and, for each kind of thread of each
process, microseconds of processor time a token: these depend less on what else the machine does.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.host.load import Loaded
from benchmarks.host.threads import processor_times
from benchmarks.host.tiny_model import write_tiny_model
from services.cli.service_process import ServiceProcess

_DEMO = Path(__file__).parents[2] / "models" / "demo" / "target"
_WARM_UP = 32  # tokens of each stream


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one setting: medians of its runs."""

    way: str
    speculation: str
    streams: int
    tokens_per_second: float
    tokens_per_message: float
    microseconds: dict[str, float]  # of processor time a token, by process and kind of thread

    def lines(self) -> Iterator[str]:
        """The lines of a table for a person to read."""
        yield (
            f"{self.way} {self.speculation:<6} {self.streams:>4} streams {self.tokens_per_second:>8.0f} tokens/s, "
            f"{self.tokens_per_message:.1f} a message, {sum(self.microseconds.values()):.0f} µs a token"
        )
        parts = sorted(self.microseconds.items(), key=lambda item: -item[1])
        yield "    " + ", ".join(f"{name} {value:.0f}" for name, value in parts if value >= 1)


def main(arguments: Seq[str] | None = None) -> None:
    """Measure all settings; print and save each as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a folder or a GGUF file, also as the draft (a tiny random model)")
    parser.add_argument("--ways", nargs="+", choices=("rpc", "http"), default=["rpc", "http"])
    parser.add_argument("--speculation", nargs="+", choices=("never", "always"), default=["never", "always"])
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 8, 64, 256], help="at once (%(default)s)")
    parser.add_argument("--tokens", type=int, default=400, help="of each stream (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="of each setting (%(default)s)")
    parser.add_argument("--target-options", default="", help="further options of the target")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also save the figures to this file")
    options = parser.parse_args(arguments)
    record = []
    for figures in measure(options):
        print("\n".join(figures.lines()), flush=True)
        record.append(asdict(figures))
        if options.json:
            options.json.write_text(json.dumps(record, indent=1) + "\n")


def measure(options: argparse.Namespace) -> Iterator[Figures]:
    """Start the services, and yield the figures of each setting."""
    cores, most = os.sched_getaffinity(0), max(options.streams)
    room = ["--max-sequences", str(most), "--max-streams-per-caller", str(most)]
    with ExitStack() as stack, open(os.devnull, "w") as log:

        def start(name: str, *asked: str) -> ServiceProcess:
            service = stack.enter_context(
                ServiceProcess(name, [*asked, "--listen", "127.0.0.1:0"], cores=cores, log=log)
            )
            service.wait_until_serving()
            return service

        if (model := options.model) is None:
            model = Path(stack.enter_context(TemporaryDirectory(prefix="outrider-host-")))
            write_tiny_model(_DEMO, model)
        drafts = []
        if "always" in options.speculation:
            draft = start("draft", "--model", str(model), "--max-sequences", str(most))
            drafts = ["--draft", draft.address]
        own = options.target_options.split()
        services = {"target": start("target", "--model", str(model), *room, *drafts, *own)}
        services["gateway"] = start("gateway", "--target", services["target"].address)
        for way, speculation, streams in product(options.ways, options.speculation, options.streams):
            address = services["target" if way == "rpc" else "gateway"].address
            asked = [way, address, str(streams)]
            _load([*asked, str(_WARM_UP), speculation])
            runs = [_run(services, [*asked, str(options.tokens), speculation]) for _ in range(options.runs)]
            yield _figures(way, speculation, streams, runs)


def _run(services: dict[str, ServiceProcess], asked: Seq[str]) -> "tuple[Loaded, Counter[str]]":
    before = _times(services)
    loaded = _load(asked)
    return loaded, _times(services) - before


def _load(asked: Seq[str]) -> Loaded:
    command = [sys.executable, "-m", "benchmarks.host.load", *asked]
    return Loaded(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def _times(services: dict[str, ServiceProcess]) -> "Counter[str]":
    return sum((processor_times(name, service.pid) for name, service in services.items()), Counter())


def _figures(way: str, speculation: str, streams: int, runs: "Iterable[tuple[Loaded, Counter[str]]]") -> Figures:
    runs = [*runs]
    names = {name for _, times in runs for name in times}
    return Figures(
        way,
        speculation,
        streams,
        statistics.median(loaded.tokens / loaded.seconds for loaded, _ in runs),
        statistics.median(loaded.tokens / loaded.messages for loaded, _ in runs),
        {name: statistics.median(times[name] / 1e3 / loaded.tokens for loaded, times in runs) for name in names},
    )


if __name__ == "__main__":
    main()
