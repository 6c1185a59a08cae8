"""CommandLineTarget: a target started from the command line."""

import subprocess
import sys

from tests.e2e.harness.models import ROOT
from tests.harness.network.free_port import free_port


class CommandLineTarget:
    """`python -m services.target` on one port, with nothing of the tests inside."""

    def __init__(self, *options: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._options = options
        self._process = self._spawn()

    def kill_and_start_again(self) -> None:
        self.stop()
        self._process = self._spawn()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _spawn(self) -> subprocess.Popen[bytes]:
        options = [*self._options, "--listen", self.address, "--kv-blocks", "32", "--threads", "1"]
        command = [sys.executable, "-m", "services.target", *options]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
