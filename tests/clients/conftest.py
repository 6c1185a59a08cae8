"""The clients, each built once for all tests and kept for the next run, and servers for them to call."""

import fcntl
import json
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.clients.kept_builds import kept_client
from tests.clients.toolchains import TOOLCHAINS, MissingToolError
from tests.e2e.harness.models import DEMO_TARGET
from tests.harness.servers.few_processes import few_processes  # noqa: F401
from tests.harness.servers.server import RunningTarget, target_server

SECONDS = 60
HEEDS_CTRL_C = ("env", "--default-signal=INT")  # also where the shell that started the tests had turned it off

Ended = subprocess.CompletedProcess[str]
RunClient = Callable[..., Ended]
CommandOf = Callable[[str], list[str]]


@pytest.fixture(scope="session")
def command_of(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> CommandOf:
    """Gives the command that starts the client of a language; whichever process asks first builds it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "clients"
    folder.mkdir(exist_ok=True)

    def command_of(language: str) -> list[str]:
        built = folder / f"{language}.json"
        with (folder / f"{language}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not built.exists():
                built.write_text(json.dumps(_build(language)))
        result = json.loads(built.read_text())
        if isinstance(result, str):
            target = "client-test-deps" if TOOLCHAINS[language].is_slow else "client-deps"
            pytest.skip(f"the {language} client is NOT TESTED, for want of {result}; `make {target}` installs it")
        return result

    return command_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first worker builds each client and the others wait: minutes on a busy machine, which count for no test."""
    for item in items:
        if isinstance(item, pytest.Function) and "command_of" in item.fixturenames:
            item.add_marker(pytest.mark.timeout(3600))


def _build(language: str) -> list[str] | str:
    """The command, or what is missing."""
    try:
        return kept_client(language)
    except MissingToolError as error:
        return str(error)


_LANGUAGES = [
    pytest.param(name, marks=pytest.mark.exhaustive) if toolchain.is_slow else name
    for name, toolchain in TOOLCHAINS.items()
]


@pytest.fixture(scope="module", params=_LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    """Each of them."""
    return request.param


@pytest.fixture(scope="module")
def command(language: str, command_of: CommandOf) -> list[str]:
    """The command that starts its client."""
    return command_of(language)


@pytest.fixture
def run_client(command: list[str]) -> RunClient:
    """Runs the client to its end, with these arguments."""

    def run(*arguments: str) -> Ended:
        return subprocess.run(
            [*command, *arguments], capture_output=True, encoding="utf-8", timeout=SECONDS, check=False
        )

    return run


@pytest.fixture
def at_once(language: str) -> list[str]:
    """The options with which no failed call is made again."""
    return ["--max-retries=0"] if TOOLCHAINS[language].resumes else []


@pytest.fixture(scope="module")
def target() -> Iterator[RunningTarget]:
    """The demo target."""
    with target_server(DEMO_TARGET, kv_blocks=256) as running:
        yield running
