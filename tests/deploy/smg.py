"""Smg: the router of that name in a process of its own, before a target of the test."""

import subprocess
import sys
import time
from pathlib import Path

import httpx2

from tests.e2e.draft_rig import PATIENCE_SECONDS
from tests.e2e.server_process import free_port

_POLL_SECONDS = 0.1


def binary() -> Path | None:
    """Where the package smg has put its command; None where it is not installed."""
    path = Path(sys.executable).with_name("smg")
    return path if path.exists() else None


class Smg:
    """Speaks HTTP, and vLLM's contract to the target; it is told nothing of the model."""

    def __init__(self, folder: Path, target: str) -> None:
        host, port = "127.0.0.1", free_port()
        self.url = f"http://{host}:{port}"
        self._log = folder / "smg.log"
        command = [str(binary()), "launch", "--worker-urls", f"grpc://{target}", "--host", host, "--port", str(port)]
        command += ["--prometheus-port", str(free_port()), "--log-level", "info"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)

    def wait_until_ready(self, model: str) -> None:
        """Return once it answers for the model, whose tokenizer it has then; raises TimeoutError."""
        end = time.monotonic() + PATIENCE_SECONDS
        body = {"model": model, "prompt": "x", "max_tokens": 1}
        while not self._answers(body):
            if time.monotonic() > end or self._process.poll() is not None:
                raise TimeoutError(self._log.read_text()[-2000:])
            time.sleep(_POLL_SECONDS)

    def _answers(self, body: dict[str, object]) -> bool:
        try:
            return bool(httpx2.post(f"{self.url}/v1/completions", json=body, timeout=10).status_code == 200)
        except httpx2.HTTPError:
            return False

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
