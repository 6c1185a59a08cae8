"""Smg: the router of that name in a process of its own, before targets of the test."""

import subprocess
import sys
import time
from pathlib import Path

import httpx2

from tests.e2e.harness.draft_rig import PATIENCE_SECONDS
from tests.harness.network.free_port import free_port

_POLL_SECONDS = 0.1


def binary() -> Path | None:
    """Where the package smg has put its command; None where it is not installed."""
    path = Path(sys.executable).with_name("smg")
    return path if path.exists() else None


class Smg:
    """Speaks HTTP, and vLLM's contract to the targets; no option describes the model."""

    def __init__(self, folder: Path, *targets: str) -> None:
        host, port = "127.0.0.1", free_port()
        self.url = f"http://{host}:{port}"
        self._num_targets = len(targets)
        self._log = folder / "smg.log"
        command = [str(binary()), "launch", "--host", host, "--port", str(port), "--log-level", "info"]
        self._metrics = f"http://{host}:{(metrics_port := free_port())}/metrics"
        command += ["--prometheus-port", str(metrics_port)]
        command += ["--worker-urls", *(f"grpc://{target}" for target in targets)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)

    def wait_until_ready(self, model: str) -> None:
        """Return once it knows all targets and answers for the model, with its tokenizer; raises TimeoutError."""
        end = time.monotonic() + PATIENCE_SECONDS
        body = {"model": model, "prompt": "x", "max_tokens": 1}
        while not (self._knows_all() and self._answers(body)):
            if time.monotonic() > end or self._process.poll() is not None:
                raise TimeoutError(self._log.read_text()[-2000:])
            time.sleep(_POLL_SECONDS)

    def _knows_all(self) -> bool:
        try:
            told = httpx2.get(f"{self.url}/readiness", timeout=10)
        except httpx2.HTTPError:
            return False
        return bool(told.status_code == 200 and told.json()["healthy_workers"] == self._num_targets)

    def _answers(self, body: dict[str, object]) -> bool:
        try:
            return bool(httpx2.post(f"{self.url}/v1/completions", json=body, timeout=10).status_code == 200)
        except httpx2.HTTPError:
            return False

    def count(self, metric: str, label: str) -> float:
        """The sum of a metric's counters with this label."""
        lines = httpx2.get(self._metrics, timeout=10).text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{metric}{{") and label in line)

    def kill(self) -> None:
        """End its process at once."""
        self._process.kill()
        self._process.wait()
