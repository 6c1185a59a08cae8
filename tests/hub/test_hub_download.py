"""`outrider pull` and `outrider models`, with the real client library, from a hub on this machine."""

import json
import os
import pty
import re
import signal
import subprocess
import termios
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.harness.processes.warm_commands import warm_process
from tests.hub.hub_server import TOKEN, HubServer, Repository, hub_server
from tests.rpc.harness.commands import OUTRIDER, outrider_run

DEMO = Path(__file__).parents[2] / "models" / "demo" / "target"
NEEDED = {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}
SURPLUS = ("pytorch_model.bin", "consolidated.safetensors", "original/model.pth", "onnx/model.onnx", "README.md")


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    with hub_server() as server:
        yield server


@pytest.fixture
def tiny(hub: HubServer) -> Repository:
    """A model with its weights in three shards, beside files that are not needed."""
    repository = Repository.of_folder(DEMO)
    weights = repository.files.pop("model.safetensors")
    shards = {f"model-0000{i}-of-00003.safetensors": weights[i : i + 500_000] for i in (1, 2, 3)}
    index = {"weight_map": {f"tensor {i}": name for i, name in enumerate(shards)}}
    repository.files |= shards | {"chat_template.jinja": b"{{ messages }}"} | dict.fromkeys(SURPLUS, b"not needed")
    repository.files["model.safetensors.index.json"] = json.dumps(index).encode()
    hub.repositories = {"org/tiny": repository}
    hub.requests.clear()
    return repository


def pull(hub: HubServer, cache: Path, *names: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return outrider_run("pull", *names, env=os.environ | hub.settings(cache, **settings))


def downloaded(cache: Path, repository: Repository, name: str = "org/tiny") -> dict[str, bytes]:
    """The files of a commit in the cache."""
    folder = cache / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / repository.commit
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def leftovers(cache: Path) -> list[Path]:
    return [*cache.rglob("*.incomplete")]


def test_only_needed_files_are_downloaded_and_only_once(hub: HubServer, tiny: Repository, tmp_path: Path) -> None:
    done = pull(hub, tmp_path, "org/tiny")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(rf"org/tiny@{tiny.commit}\n  [\d.]+ MB in {tmp_path}/hub/", done.stdout)
    files = downloaded(tmp_path, tiny)
    shards = {f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)}
    assert files.keys() == NEEDED | shards | {"model.safetensors.index.json"}
    assert all(tiny.files[name] == data for name, data in files.items())
    hub.requests.clear()
    again = pull(hub, tmp_path, "org/tiny", f"org/tiny@{tiny.commit}")
    assert again.stdout == done.stdout * 2
    assert [path for _, path, _ in hub.requests if "org/tiny" in path] == ["/api/models/org/tiny"]


def test_a_broken_transfer_continues_with_the_missing_bytes(hub: HubServer, tmp_path: Path) -> None:
    repository = hub.repositories["org/whole"] = Repository.of_folder(DEMO)
    hub.requests.clear()
    file = "model.safetensors"
    hub.breaks[file] = [12_000_000, 15_000_000]
    hub.statuses[file] = [503]
    done = pull(hub, tmp_path, "org/whole")
    assert done.returncode == 0, done.stderr
    assert downloaded(tmp_path, repository, "org/whole")[file] == repository.files[file]
    ranges = [headers.get("Range") for _, path, headers in hub.requests if path == f"/stored/org/whole/{file}"]
    assert ranges == [None, "bytes=10485760-", "bytes=10485760-"]  # the library keeps pieces of 10 MiB
    assert hub.statuses[file] == []


def test_a_killed_download_leaves_no_partial_file(hub: HubServer, tiny: Repository, tmp_path: Path) -> None:
    last = "model-00003-of-00003.safetensors"
    hub.stalls[last] = 300_000
    with warm_process(["pull", "org/tiny"], env=os.environ | hub.settings(tmp_path)):  # which is killed at its end
        assert hub.stalled.wait(240)
    hub.go_on()
    files = downloaded(tmp_path, tiny)
    assert last not in files
    assert all(tiny.files[name] == data for name, data in files.items())
    offline = pull(hub, tmp_path, "org/tiny", HF_HUB_OFFLINE="1")
    assert offline.returncode == 1
    assert f"org/tiny: is not a local folder or file, and not completely in the cache {tmp_path}/hub" in offline.stderr
    assert "outrider pull org/tiny" in offline.stderr
    assert pull(hub, tmp_path, "org/tiny").returncode == 0
    assert downloaded(tmp_path, tiny)[last] == tiny.files[last]


def test_ctrl_c_ends_a_download_at_once_without_leftovers(hub: HubServer, tiny: Repository, tmp_path: Path) -> None:
    hub.stalls["model-00001-of-00003.safetensors"] = 300_000
    with warm_process(["pull", "org/tiny"], env=os.environ | hub.settings(tmp_path)) as command:
        assert hub.stalled.wait(240)
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(60) == 130
        said = command.stderr.read_text()
    hub.go_on()
    assert said == "outrider pull: org/tiny is incomplete; the same command continues the download\n"
    assert leftovers(tmp_path) == []


def test_progress_is_shown_on_a_terminal(hub: HubServer, tiny: Repository, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    command = [OUTRIDER, "pull", "org/tiny"]
    with subprocess.Popen(
        command, env=os.environ | hub.settings(tmp_path), stderr=theirs, stdout=subprocess.PIPE
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            for piece in iter(partial(os.read, ours, 1 << 16), b""):
                shown += piece
        except OSError:  # as Linux says that nobody has the terminal open any more
            os.close(ours)
    assert process.returncode == 0
    assert re.search(r"\rmodel-00001-of-00003.safetensors: .*100%", shown.decode())
    assert "fetching" not in shown.decode().lower()


def test_a_gated_model_needs_a_token_which_only_the_hub_gets(hub: HubServer, tiny: Repository, tmp_path: Path) -> None:
    tiny.gated = True
    refused = pull(hub, tmp_path, "org/tiny")
    assert refused.returncode == 1
    page = f"{hub.endpoint}/org/tiny"
    assert f"org/tiny: its owners must grant access: ask for it on {page}, then set HF_TOKEN, or run " in refused.stderr
    assert "Traceback" not in refused.stderr
    hub.requests.clear()
    assert pull(hub, tmp_path, "org/tiny", HF_TOKEN=TOKEN).returncode == 0
    asked = [(path, headers) for _, path, headers in hub.requests if "org/tiny" in path]
    sent = {path.startswith("/stored/"): headers.get("Authorization") for path, headers in asked}
    assert sent == {False: f"Bearer {TOKEN}", True: None}
    expired = pull(hub, tmp_path, "org/tiny", HF_TOKEN="hf_expired")
    assert expired.returncode == 0, "what is in the cache needs no token"
    assert "does not accept the token" in expired.stderr
    assert TOKEN not in refused.stderr + expired.stderr


def test_each_unavailable_name_is_reported_with_the_reason(hub: HubServer, tiny: Repository, tmp_path: Path) -> None:
    hub.repositories["org/bin"] = Repository({"config.json": b"{}", "tokenizer.json": b"{}", "pytorch_model.bin": b""})
    hub.repositories["org/gguf"] = Repository(dict.fromkeys(["a-Q4_0.gguf", "a-Q8_0.gguf"], b"GGUF"))
    hub.repositories["org/vast"] = Repository(tiny.files, sizes={"tokenizer.json": 1 << 60})
    index = {"model.safetensors.index.json": b'{"weight_map": {"a": "../../main"}}'}
    hub.repositories["org/odd"] = Repository({"config.json": b"{}", "tokenizer.json": b"{}", **index})
    names = ["org/none", "org/tiny@v9", "org/bin", "org/gguf", "org/vast", "org/odd", "org/gguf:a-Q8_0.gguf"]
    done = pull(hub, tmp_path, *names)
    assert done.returncode == 1
    assert done.stdout.startswith(f"org/gguf@{hub.repositories['org/gguf'].commit}:a-Q8_0.gguf\n  4 B in {tmp_path}/")
    errors = done.stderr.splitlines()
    assert [re.match(r"outrider pull: (\S+): ", line)[1] for line in errors] == names[:-1]
    for line, said in zip(
        errors,
        [
            f"is not a local folder or file, and there is no such model on {hub.endpoint}/org/none",
            "has no branch, tag or commit 'v9'",
            "after: hf download org/bin --local-dir FOLDER; it holds pytorch_model.bin, a pickle, which",
            "has several such files; name one of its GGUF files, which are: a-Q4_0.gguf, a-Q8_0.gguf",
            f"bytes, but the disk of {tmp_path}/hub has",
            "field 'weight_map': must map each tensor's name to the name of a file in the same folder",
        ],
        strict=True,
    ):
        assert said in line
    assert not [path for _, path, _ in hub.requests if path.startswith("/stored/org/vast/")]


def test_a_cache_that_cannot_be_written_is_named(hub: HubServer, tiny: Repository) -> None:
    done = pull(hub, Path("/dev/null"), "org/tiny")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "outrider pull: org/tiny: cannot be kept in the cache /dev/null/hub: Not a directory; make room there, or set "
        "HF_HOME to another"
    )


def test_without_a_network_only_cached_models_are_found(hub: HubServer, tiny: Repository, tmp_path: Path) -> None:
    here = pull(hub, tmp_path, "org/tiny").stdout
    with hub_server() as gone:
        nowhere = {"HF_ENDPOINT": gone.endpoint}
    for settings in ({"HF_HUB_OFFLINE": "1"}, nowhere):
        done = pull(hub, tmp_path, "org/tiny", f"org/tiny@{tiny.commit}", **settings)
        assert done.stdout == here * 2
        absent = pull(hub, tmp_path, "org/other", **settings)
        assert absent.returncode == 1
        assert f"pull: org/other: is not a local folder or file, and not completely in the cache {tmp_path}" in (
            absent.stderr
        )
    assert f"and {nowhere['HF_ENDPOINT']} does not serve it (ConnectError: " in absent.stderr


def cache_as_others_do(cache: Path, name: str, files: dict[str, bytes]) -> None:
    """Blobs and links to them, without a list of what the repository has."""
    folder = cache / "hub" / f"models--{name.replace('/', '--')}"
    blobs, snapshot = folder / "blobs", folder / "snapshots" / ("0" * 40)
    for made in (blobs, snapshot, folder / "refs"):
        made.mkdir(parents=True)
    (folder / "refs" / "main").write_text(snapshot.name)
    for i, (file, data) in enumerate(files.items()):
        (blobs / str(i)).write_bytes(data)
        (snapshot / file).symlink_to(f"../../blobs/{i}")


def test_another_programs_download_is_used_offline(hub: HubServer, tiny: Repository, tmp_path: Path) -> None:
    needed = {file: data for file, data in tiny.files.items() if file not in SURPLUS}
    cache_as_others_do(tmp_path, "org/tiny", needed)
    cache_as_others_do(tmp_path, "org/part", {file: data for file, data in needed.items() if "00002" not in file})
    cache_as_others_do(tmp_path, "org/two", {"a-Q4_0.gguf": b"", "a-Q8_0.gguf": b""})
    done = pull(hub, tmp_path, "org/tiny", "org/part", "org/two", HF_HUB_OFFLINE="1")
    assert re.match(rf"org/tiny@{'0' * 40}\n.+\n$", done.stdout)
    part, two = done.stderr.splitlines()
    assert "org/part: is not a local folder or file, and not completely in the cache" in part
    assert "org/two: its repository has several such files; name one of its GGUF files, which are: a-Q4_0.gguf" in two


def test_models_lists_cached_models_and_whether_they_are_served(hub: HubServer, tmp_path: Path) -> None:
    good = Repository.of_folder(DEMO)
    foreign = Repository({**good.files, "config.json": b'{"architectures": ["BertModel"]}'})
    hub.repositories = {"org/good": good, "org/bert": foreign}
    settings = os.environ | hub.settings(tmp_path)
    assert "no models in" in outrider_run("models", env=settings).stdout
    assert pull(hub, tmp_path, "org/good", "org/bert").returncode == 0
    listed = outrider_run("models", env=settings)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert re.fullmatch(
        rf"org/bert\n  [\d.]+ MB · revision {foreign.commit[:12]} · cannot be served: config.json: "
        rf"field 'architectures': .*'BertModel'.* is not supported: it encodes .*; .*\n"
        rf"org/good\n  [\d.]+ MB · revision {good.commit[:12]} · LlamaForCausalLM · "
        rf"[\d.]+ million parameters in [\d.]+ bits each · context of 2048 tokens\n",
        listed.stdout,
    )
    bert, other = json.loads(outrider_run("models", "--json", env=settings).stdout)
    assert bert["problem"].startswith("config.json: field 'architectures': ")
    snapshot = tmp_path / "hub" / "models--org--good" / "snapshots" / good.commit
    expected = {"name": "org/good", "revision": good.commit, "refs": ["main"], "path": str(snapshot), "problem": None}
    assert {name: other[name] for name in expected} == expected
    assert other["num_bytes"] == sum(len(data) for name, data in good.files.items() if (snapshot / name).exists())
