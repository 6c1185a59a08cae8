"""`outrider up`, `target` and `draft`, as a shell runs them."""

import io
import json
import math
import os
import re
import select
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import outrider
from services.cli import main, up
from services.cli.terminal import Terminal
from services.engine.loaded_model import LoadedModel
from tests.harness.models.checkpoints import copy_of, edit_json, edit_weights
from tests.harness.processes.child_processes import child_processes
from tests.harness.processes.warm_commands import warm_process
from tests.harness.servers.server import RunningTarget, engine_config, target_server, wait_until
from tests.rpc.harness.commands import SMALL, outrider_begin, outrider_run, press_ctrl_c
from tests.rpc.harness.faulty_targets import fails, faulty_target, loads_forever, serving_address
from tests.rpc.harness.requests import PROMPT
from tests.rpc.harness.typed_command import typed

DRAFT_COLOUR = "green: what the draft had predicted"
LOOKUP_COLOUR = "cyan: what was predicted from the text's own repetitions"


@pytest.mark.parametrize(
    ("end", "option", "sources"),
    [(press_ctrl_c, "--lookup", ["lookup"]), (subprocess.Popen.terminate, "--no-lookup", [])],
)
def test_up_starts_a_service_with_or_without_lookup_and_stops_it(
    model: Path, end: Callable[[subprocess.Popen[str]], None], option: str, sources: list[str]
) -> None:
    with outrider_begin("up", "--model", str(model), "--listen", "127.0.0.1:0", "--", *SMALL, option) as process:
        assert process.stdout is not None
        found = re.fullmatch(r"outrider is up on (\S+); Ctrl-C stops it.*\n", process.stdout.readline())
        assert found is not None
        assert found[1] in process.stdout.readline()
        assert process.stdout.readline() == f"  outrider chat --address {found[1]}\n"
        assert process.stderr is not None
        log = ""
        while "metrics are served on" not in log:
            line = process.stderr.readline()
            assert line, log
            log += line
        done = outrider_run("top", "--once", "--interval", "0.1", "--metrics-address", log.split()[-1])
        assert (done.returncode, "tokens" in done.stdout) == (0, True), done.stderr
        with outrider.Client(found[1], max_retries=0) as client:
            assert len(client.generate(PROMPT, max_tokens=24, ignore_eos=True).token_ids) == 24
            repeats = client.generate(
                [5, 6, 7] * 9, temperature=0.0, max_tokens=24, ignore_eos=True, speculation="always"
            )
            assert [entry.source for entry in repeats.speculation.by_source] == sources
            end(process)
            assert (process.wait(60), process.stdout.read().endswith("outrider is down\n")) == (0, True)
            log += process.stderr.read()
            assert "serving" in log
            assert PROMPT not in log
            with pytest.raises(outrider.Unavailable):
                client.generate(PROMPT)


def test_up_explains_both_colours_and_killed_leaves_no_service(model: Path) -> None:
    command = ("up", "--model", str(model), "--draft", str(model), "--listen", "127.0.0.1:0", "--", *SMALL)
    with typed(*command) as typed_up:
        assert DRAFT_COLOUR in typed_up.until(LOOKUP_COLOUR)
        services = [os.pidfd_open(child) for child in child_processes(typed_up.pid)]
        assert len(services) == 2
        typed_up.kill()
        for service in services:
            assert select.select([service], [], [], 60.0)[0], "it still runs"
            os.close(service)


@pytest.mark.parametrize(
    ("given", "own", "predictor"),
    [("the draft", "", "the draft"), ("the head", "head", "the head"), ("", "mtp", "the head"), ("", "", "")],
)
def test_the_colour_of_what_predicts_is_explained(given: str, own: str, predictor: str) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    pair: Any = SimpleNamespace(target=SimpleNamespace(address="localhost:1"))
    info: Any = SimpleNamespace(has_chat_template=False, head=own)
    up._print_calls(pair, None, Terminal(screen := Screen()), info, given)
    assert LOOKUP_COLOUR in screen.getvalue()
    assert ("green: " in screen.getvalue()) == bool(predictor)
    assert f"what {predictor} had predicted" in screen.getvalue() or not predictor


@pytest.mark.parametrize("command", ["up", "target", "draft"])
def test_a_port_in_use_is_one_line_before_a_model_is_loaded(model: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        address = f"127.0.0.1:{used.getsockname()[1]}"
        done = outrider_run(command, "--model", str(model), "--listen", address)
    assert done.returncode == 1
    assert done.stderr == f"outrider {command}: cannot listen on {address}: the address is in use\n"


def test_up_checks_the_gateways_packages_before_loading_a_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("services.gateway.command._NEEDED", ("no_such_package",))
    assert main(["up", "--model", "nowhere", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]) == 1
    said = "outrider up: no_such_package is not installed; it comes with: pip install 'outrider[gateway]'\n"
    assert capsys.readouterr().err == said


def test_up_refuses_a_draft_without_a_model(model: Path) -> None:
    done = outrider_run("up", "--draft", str(model))
    assert (done.returncode, done.stdout) == (1, "")
    assert "--draft is the draft of --model, which is not given" in done.stderr


def test_up_keeps_the_packed_weights_of_both(model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    models = ["--model", str(model), "--draft", str(model), "--draft-weights", "int8"]
    kept = ["--weights-cache", str(tmp_path)]
    with outrider_begin("up", *models, *kept, "--listen", "127.0.0.1:0", "--", *SMALL) as process:
        assert process.stdout is not None
        found = re.search(r"up on (\S+);", process.stdout.readline())
        assert found is not None
        with outrider.Client(found[1]) as client:
            text = client.generate(PROMPT, max_tokens=24, seed=5, ignore_eos=True).text
        assert any("the draft is loaded" in line for line in process.stdout), "the target serves without it meanwhile"
        wait_until(lambda: len([*tmp_path.glob("*.packed")]) == 2)  # they are kept while it serves
        press_ctrl_c(process)
        log = process.communicate(timeout=60)[1]
    assert len(re.findall("weights of .* packed in", log)) == 2
    assert re.search(r"drafting with \S+: device \S+, int8 weights", log)
    caplog.set_level("INFO")
    LoadedModel.load(engine_config(model, weights="int8", weights_cache=tmp_path))
    with target_server(model, weights_cache=tmp_path) as target, outrider.Client(target.address) as client:
        assert client.generate(PROMPT, max_tokens=24, seed=5, ignore_eos=True).text == text
    assert len(re.findall("weights read from", caplog.text)) == 2


def test_a_draft_says_which_weights_are_the_fastest(model: Path) -> None:
    with warm_process(["draft", "--model", str(model), "--listen", "127.0.0.1:0", *SMALL]) as command:
        wait_until(lambda: "drafting with" in command.stderr.read_text())
        log = command.stderr.read_text().splitlines(keepends=True)
    assert any(line.endswith("parameters stay in the caches in any format\n") for line in log)
    assert any(re.search(r"drafting with \S+: device \S+, bf16 weights, 1 threads", line) for line in log)


def test_a_draft_without_its_targets_tokenizer_ends_clearly(model: Path, tmp_path: Path) -> None:
    done = outrider_run("draft", "--model", str(model), "--target-tokenizer", str(tmp_path), "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("outrider draft: ")]
    assert f"{tmp_path / 'tokenizer.json'}: no such file" in error


def test_up_says_why_the_target_did_not_start(tmp_path: Path) -> None:
    done = outrider_run("up", "--model", str(tmp_path / "nowhere"), "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    assert "outrider target: " in done.stderr
    assert "nowhere" in done.stderr
    assert "outrider up: the target ended with code 1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "{folder}"], "config.json"),
        (["--model", "{model}", "--threads", "0"], "threads is 0"),
        (["--model", "{model}", "--threads", "1000000"], "threads is 1000000; it must be from 1 to "),
        (
            ["--model", "{model}", "--kv-blocks", "2147483648"],
            "kv_blocks is 2147483648; it must be from 1 to 2147483647",
        ),
        (["--model", "{model}", "--kv-blocks", "2147483647"], "for which this host has memory"),
        (["--model", "{model}", "--max-rows", "63"], "max_rows is 63; it must be at least max_sequences (64)"),
        (["--model", "{model}", "--drain-seconds", "nan"], "drain_seconds is nan; it must be from 0 to 3600"),
        (["--model", "{model}", "--gpu-memory-fraction", "inf"], "gpu_memory_fraction is inf; it must be above 0"),
        (["--model", "{model}", "--alternates", "-1"], "alternates is -1; it must be from 0 to 64"),
        (["--model", "{model}", "--tls-key", "k.pem"], "only one of tls_certificate and tls_key"),
        (["--model", "{model}", "--listen", "256.0.0.1:0", "--insecure"], "cannot listen on 256.0.0.1:0"),
        (["--model", "{model}", "--listen", "0.0.0.0:0"], "others may read and change unencrypted traffic"),
        (["--model", "{model}", "--draft", "draft:1"], "draft is draft:1, where others may read and change"),
    ],
)
def test_target_ends_with_one_clear_line(model: Path, tmp_path: Path, options: list[str], said: str) -> None:
    filled = [option.format(folder=tmp_path, model=model) for option in options]
    listen = [] if "--listen" in options else ["--listen", "127.0.0.1:0"]
    done = outrider_run("target", *filled, *listen)
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("outrider target: ")]
    assert len(errors) == 1
    assert said in errors[0]
    assert "Traceback" not in done.stderr
    assert "serving" not in done.stderr


def damage_config(folder: Path) -> str:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    return "config.json: is not a regular file"


def damage_sizes(folder: Path) -> str:
    edit_json(folder / "config.json", head_dim=2**31 - 2)
    return "config.json: field 'head_dim': must be a whole number from 1 to 8192, is 2147483646"


def damage_tokenizer(folder: Path) -> str:
    description = json.loads((folder / "tokenizer.json").read_text())
    description["model"]["vocab"]["far"] = 2**31
    (folder / "tokenizer.json").write_text(json.dumps(description))
    return "tokenizer.json: token 'far' has id 2147483648; it must be from 0 to 4194303"


def damage_template(folder: Path) -> str:
    loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    (folder / "chat_template.jinja").write_text(loops)
    return "chat_template.jinja: the chat template cannot render three messages: it "  # takes too long, in either way


def damage_weights(folder: Path) -> str:
    edit_weights(folder, lambda tensors: tensors["model.norm.weight"].fill_(math.nan))
    return "tensor 'model.norm.weight' holds NaN or an infinity"


@pytest.mark.parametrize(
    "damage",
    [damage_config, damage_sizes, damage_tokenizer, damage_template, damage_weights],
    ids=lambda each: each.__name__,
)
def test_target_names_the_damage_of_a_folder_in_one_line(
    model: Path, tmp_path: Path, damage: Callable[[Path], str]
) -> None:
    folder = copy_of(model, tmp_path)
    said = damage(folder)
    done = outrider_run("target", "--model", str(folder), *SMALL, "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("outrider target: ")]
    assert said in error
    assert str(folder) in error
    assert "Traceback" not in done.stderr
    # The weights of so small a model may be the sooner.
    is_read_beside = damage in (damage_tokenizer, damage_template, damage_weights)
    assert "packed in" not in done.stderr or is_read_beside


def test_a_target_whose_engine_fails_ends_with_an_error(model: Path, tmp_path: Path) -> None:
    with faulty_target(fails, model, tmp_path) as target:
        with (
            outrider.Client(serving_address(target), max_retries=0) as client,
            pytest.raises(outrider.Unavailable) as failure,
        ):
            client.generate(PROMPT, max_tokens=200, ignore_eos=True)
        assert failure.value.received is not None
        assert failure.value.received.token_ids
        assert target.process.wait(60) == 3
        assert "broken on purpose" in target.stderr.read_text()


def test_a_target_stops_on_sigterm_while_loading(model: Path, tmp_path: Path) -> None:
    with faulty_target(loads_forever, model, tmp_path) as target:
        target.process.terminate()
        assert target.process.wait(60) == 0


def test_a_stranger_s_client_streams_by_reflection(target: RunningTarget) -> None:
    buf = Path(__file__).parents[3] / "node_modules" / ".bin" / "buf"
    if not buf.exists() or shutil.which("node") is None:
        pytest.skip("NO BUF: `npm install` FIRST; THAT A STRANGER'S CLIENT CAN STREAM IS NOT TESTED")
    url = f"http://{target.address}/outrider.v1.GenerationService/StreamGenerate"
    data = '{"prompt": {"text": "import os"}, "stop": {"maxTokens": 5, "ignoreEos": true}, "sampling": {"seed": "7"}}'
    command = [str(buf), "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--data", data, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert [done.stdout.count(f'"{event}":') for event in ("started", "finished")] == [1, 1]
    assert '"seed": "7"' in done.stdout or '"seed":"7"' in done.stdout
    assert "FINISH_REASON_MAX_TOKENS" in done.stdout
