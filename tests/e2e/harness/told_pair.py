"""ToldPair: a target and a draft in processes of their own, with all metrics, traces and logs that they send."""

import json
import re
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from outrider import Client, Result
from services.cli.service_pair import ModelPair, running_pair
from services.cli.service_process import ServiceProcess
from tests.e2e.harness.draft_rig import READS_LITTLE
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.e2e.harness.otlp_receiver import OtlpReceiver
from tests.harness.models.lora_folders import write_adapter
from tests.harness.servers.server import wait_until

Labels = frozenset[tuple[str, str]]
Samples = dict[tuple[str, Labels], float]
_SERVED = re.compile(r'"services\.telemetry\.telemetry", "message": "metrics are served on ([^"]+)"')
_EVERY_PASS: dict[str, Any] = {"speculation": "always"}
# With its records it is many times what gRPC lets a server send ahead of its reader.
_ENDLESS: dict[str, Any] = {"max_tokens": 1500, "ignore_eos": True, "top_candidates": 20}


class ToldPair:
    """The processes, their addresses for scrapes, their log, and the collector that they send traces to."""

    def __init__(self, target: ServiceProcess, draft: ServiceProcess, log: Path, receiver: OtlpReceiver) -> None:
        self._processes = [target, draft]
        self._log, self.receiver = log, receiver
        self.address = target.address
        self.draft_metrics, self.target_metrics = _SERVED.findall(log.read_text())
        wait_until(lambda: value(self.scrape(), "outrider:draft_link_up") == 1)

    def scrape(self, address: str | None = None) -> Samples:
        """Every sample of one scrape, by its name and labels; that of the target unless it is another's."""
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.page(address))
            for sample in family.samples
        }

    @property
    def num_runs(self) -> float:
        """Runs of predictions that have come from the draft."""
        return sum_of(self.scrape(), "outrider:draft_link_runs_total", use="useful")

    def page(self, address: str | None = None) -> str:
        """The page of one scrape."""
        with urllib.request.urlopen(f"http://{address or self.target_metrics}/metrics", timeout=60) as answer:
            page: bytes = answer.read()
        return page.decode()

    def generate(self, client: Client, prompt: str, **options: Any) -> Result:
        """One generation whose passes have predictions where there are any."""
        return client.generate(prompt, ignore_eos=True, **{**_EVERY_PASS, **options})

    @contextmanager
    def streaming(self, prompt: str, **options: Any) -> Iterator[Callable[[], Result]]:
        """A generation that has begun, and cannot end before its reader continues, as the function does to the end;
        after the block it is cancelled.
        """
        with Client(self.address, channel_arguments=READS_LITTLE) as client:
            with client.stream(prompt, **{**_EVERY_PASS, **_ENDLESS, **options}) as stream:
                chunks = iter(stream)

                def read_on() -> Result:
                    deque(chunks, maxlen=0)
                    return stream.result

                next(chunks)
                yield read_on
            wait_until(lambda: sum_of(self.scrape(), "outrider:caller_requests") == 0)

    def log_text(self) -> str:
        """What both have written to their logs."""
        return self._log.read_text()

    def log_lines(self) -> list[dict[str, Any]]:
        """The same, line by line; raises ValueError for one that is not JSON."""
        return [json.loads(line) for line in self.log_text().splitlines()]

    def stop(self) -> None:
        """End both, which makes them send all that is pending."""
        for process in self._processes:
            process.stop()


@contextmanager
def told_pair(folder: Path, *options: str) -> Iterator[ToldPair]:
    """The demo pair, with an adapter, and the log in this folder; the options are both services'."""
    receiver, log = OtlpReceiver(), folder / "log"
    told = ["--metrics-listen", "127.0.0.1:0", "--log-format", "json", "--otlp-endpoint", receiver.endpoint, *options]
    own = [*told, "--lora", f"other={write_adapter(folder / 'lora', DEMO_TARGET, seed=0)}"]
    try:
        with log.open("w") as file:
            pair = running_pair(ModelPair(DEMO_TARGET, DEMO_DRAFT), options=own, draft_options=told, log=file)
            with pair as running:
                assert running.draft is not None
                yield ToldPair(running.target, running.draft, log, receiver)
    finally:
        receiver.close()


def value(samples: Samples, name: str, **labels: str) -> float:
    """The sum of the samples of a name that have these labels; raises KeyError where there is none."""
    wanted = labels.items()
    found = [number for (each, has), number in samples.items() if each == name and wanted <= dict(has).items()]
    if not found:
        raise KeyError(f"{name} {labels}")
    return sum(found)


def sum_of(samples: Samples, name: str, **labels: str) -> float:
    """As `value`, and 0 where there is none yet: a position that was never predicted at has no sample."""
    try:
        return value(samples, name, **labels)
    except KeyError:
        return 0.0
