"""Services of models that are named as on the hub."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import outrider
from tests.hub.hub_server import HubServer, Repository, hub_server
from tests.rpc.harness.commands import SMALL, outrider_begin, outrider_run, press_ctrl_c

DEMO = Path(__file__).parents[2] / "models" / "demo"
PROMPT = "import os\nimport sys\n\ndef main(argv):\n"
LISTEN = ["--listen", "127.0.0.1:0"]


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    with hub_server() as server:
        for name in ("target", "draft"):
            server.repositories[f"org/{name}"] = Repository.of_folder(DEMO / name)
        server.repositories["org/target"].tags = {"v1"}
        yield server


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
    answers, infos = [], []
    for name, settings in (("org/target@v1", env), (pinned, env | {"HF_HUB_OFFLINE": "1"})):
        hub.requests.clear()
        with up("--model", name, "--draft", "org/draft", env=settings) as client:
            infos.append(client.model_info())
            answers.append(client.generate(PROMPT, max_tokens=24, seed=5, ignore_eos=True, speculation="always"))
        assert any("org/draft" in path for _, path, _ in hub.requests) == (settings is env)
    assert [info.name for info in infos] == [pinned, pinned]
    assert infos[0].fingerprint == infos[1].fingerprint
    assert answers[0].text == answers[1].text
    assert all(answer.speculation.by_source for answer in answers)


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
    with outrider_begin("target", "--model", "org/draft", *LISTEN, *SMALL, env=env) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("listening on ").strip()
        with outrider.Client(address, max_retries=20, max_backoff=0.5) as client:
            assert client.model_info().name == f"org/draft@{hub.repositories['org/draft'].commit}"
        process.terminate()
        log = process.communicate(timeout=60)[1]
    assert re.search(rf"downloading \d+ bytes of org/draft into {tmp_path}/hub\n", log)
    assert "HTTP" not in log


def test_only_the_tokenizer_of_a_target_is_downloaded(hub: HubServer, tmp_path: Path) -> None:
    options = ["--model", str(DEMO / "target"), "--target-tokenizer", "org/draft", *LISTEN, *SMALL]
    hub.requests.clear()
    with outrider_begin("draft", *options, env=os.environ | hub.settings(tmp_path)) as process:
        assert process.stderr is not None
        assert any("drafting with" in line for line in process.stderr)
    assert {Path(path).name for _, path, _ in hub.requests if "/resolve/" in path} == {"tokenizer.json"}
