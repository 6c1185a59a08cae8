"""Services of models that are named as on the hub."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import outrider
from tests.harness.processes.warm_commands import warm_process
from tests.harness.servers.server import wait_until
from tests.hub.hub_server import HubServer, Repository, hub_server
from tests.hub.listening import address_of
from tests.rpc.harness.commands import SMALL, outrider_begin, outrider_run, press_ctrl_c

DEMO = Path(__file__).parents[2] / "models" / "demo"
PROMPT = "import os\nimport sys\n\ndef main(argv):\n"
LISTEN = ["--listen", "127.0.0.1:0"]
ALWAYS: Any = {"ignore_eos": True, "speculation": "always"}


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    with hub_server() as server:
        for name in ("target", "draft", "head"):
            server.repositories[f"org/{name}"] = Repository.of_folder(DEMO / name)
        server.repositories["org/target"].tags = {"v1"}
        yield server


@contextmanager
def alone(target: str, draft: str, *, env: dict[str, str]) -> Iterator[outrider.Client]:
    """A client of a target and its draft, which are started without `outrider up`."""
    with (
        warm_process(["draft", "--model", draft, *LISTEN, *SMALL], env=env) as predicting,
        warm_process(
            ["target", "--model", target, "--draft", address_of(predicting), *LISTEN, *SMALL], env=env
        ) as serving,
        outrider.Client(address_of(serving), max_retries=20, max_backoff=0.5) as client,
    ):
        wait_until(lambda: client.generate("a", max_tokens=8, lookup=False, **ALWAYS).speculation.predicted > 0)
        yield client


@contextmanager
def up(*models: str, env: dict[str, str]) -> Iterator[outrider.Client]:
    """`outrider up`, and its client; it has ended at the end of the block."""
    with outrider_begin("up", *models, *LISTEN, "--", *SMALL, env=env) as process:
        assert process.stdout is not None
        found = re.search(r"up on (\S+);", process.stdout.readline())
        assert found is not None, process.communicate()[1]
        with outrider.Client(found[1]) as client:
            yield client
        press_ctrl_c(process)
        process.communicate(timeout=60)


def test_a_pair_is_served_by_name_and_again_without_a_network(hub: HubServer, tmp_path: Path) -> None:
    env = os.environ | hub.settings(tmp_path)
    pinned = f"org/target@{hub.repositories['org/target'].commit}"
    services = (
        up("--model", "org/target@v1", "--draft", "org/draft", env=env),
        alone(pinned, "org/draft", env=env | {"HF_HUB_OFFLINE": "1"}),
    )
    answers, infos, requests = [], [], []
    for service in services:
        hub.requests.clear()
        with service as client:
            infos.append(client.model_info())
            answers.append(client.generate(PROMPT, max_tokens=24, seed=5, **ALWAYS))
        requests.append([path for _, path, _ in hub.requests if "org/draft" in path])
    assert requests[0]
    assert requests[1] == []
    assert [info.name for info in infos] == [pinned, pinned]
    assert infos[0].fingerprint == infos[1].fingerprint
    assert answers[0].text == answers[1].text
    assert all(answer.speculation.by_source for answer in answers)


def test_a_head_is_served_by_name_as_a_draft_is(hub: HubServer, tmp_path: Path) -> None:
    with up("--model", "org/target", "--draft", "org/head", env=os.environ | hub.settings(tmp_path)) as client:
        answer = client.generate(PROMPT, max_tokens=24, seed=5, lookup=False, **ALWAYS)
    (stats,) = answer.speculation.by_source
    assert stats.source is outrider.PredictionSource.ATTACHED


def test_up_downloads_before_it_starts_anything(hub: HubServer, tmp_path: Path) -> None:
    models = ["--model", "org/target", "--draft", "org/none"]
    done = outrider_run("up", *models, *LISTEN, env=os.environ | hub.settings(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    (error,) = done.stderr.splitlines()
    assert error.startswith("outrider up: org/none: is not a local folder or file, and there is no such model on ")


def test_a_service_downloads_its_model_by_itself_or_says_why_not(hub: HubServer, tmp_path: Path) -> None:
    env = os.environ | hub.settings(tmp_path)
    done = outrider_run("target", "--model", "org/none", *LISTEN, env=env)
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("outrider target: ")]
    assert "org/none: is not a local folder or file" in error
    assert "Traceback" not in done.stderr
    with warm_process(["target", "--model", "org/draft", *LISTEN, *SMALL], env=env) as command:
        with outrider.Client(address_of(command), max_retries=20, max_backoff=0.5) as client:
            assert client.model_info().name == f"org/draft@{hub.repositories['org/draft'].commit}"
        command.process.terminate()
        command.process.wait(60)
        log = command.stderr.read_text()
    assert re.search(rf"downloading \d+ bytes of org/draft into {tmp_path}/hub\n", log)
    assert "HTTP" not in log


def test_only_the_tokenizer_of_a_target_is_downloaded(hub: HubServer, tmp_path: Path) -> None:
    options = ["--model", str(DEMO / "target"), "--target-tokenizer", "org/draft", *LISTEN, *SMALL]
    hub.requests.clear()
    with warm_process(["draft", *options], env=os.environ | hub.settings(tmp_path)) as command:
        wait_until(lambda: "drafting with" in command.stderr.read_text())
    assert {Path(path).name for _, path, _ in hub.requests if "/resolve/" in path} == {"tokenizer.json"}
