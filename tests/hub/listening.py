"""Where a service that a test has started listens."""

from tests.harness.processes.warm_commands import WarmProcess
from tests.harness.servers.server import wait_until


def address_of(command: WarmProcess) -> str:
    """The address that it prints first, once it does."""
    wait_until(lambda: "\n" in command.stdout.read_text())
    return command.stdout.read_text().splitlines()[0].removeprefix("listening on ")
