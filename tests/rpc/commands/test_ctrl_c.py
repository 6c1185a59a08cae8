"""Ctrl-C ends a command with exit code 130 and no traceback, also while its modules are loaded."""

import subprocess
import sys

import pytest

# Interrupts the process when it looks for a module.
INTERRUPTED = """
import os, signal, sys
from services.entry import main

class Interruption:
    def find_spec(self, name, path, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)

wanted = sys.argv.pop(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interruption())
sys.exit(main())
"""
COMMANDS = {
    "health": ["--address", "127.0.0.1:1"],
    "generate": ["Who?", "--address", "127.0.0.1:1"],
    "target": ["--model", "gone"],
    "up": ["--model", "gone"],
    "pull": ["org/name"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("module", ["services.cli", "argparse", "outrider"])
def test_ctrl_c_while_modules_load_ends_a_command(command: str, module: str) -> None:
    arguments = [sys.executable, "-c", INTERRUPTED, module, command, *COMMANDS[command]]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_in_a_terminal_reaches_no_service_of_a_command() -> None:
    """The command that has started them stops them, so that none ends before it knows why."""
    code = (
        "import os, sys; from services.cli.service_process import ServiceProcess\n"
        "with ServiceProcess('draft', ['--help'], cores=os.sched_getaffinity(0)) as service:\n"
        "    sys.exit(os.getpgid(service.pid) == os.getpgid(0))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
