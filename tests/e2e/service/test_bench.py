"""`outrider bench` measures the demo pair with very few runs: every vital sign is there, and no answer differs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from outrider import Client, GenerateOptions
from services.bench.way_figures import PassFigures
from services.cli import main
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.servers.server import target_server

FEW = ["--context", "16", "--runs", "2", "--rounds", "2", "--prompt-tokens", "8", "--new-tokens", "12"]
FEW += ["--streams", "2", "--draft-lengths", "3"]
WAYS = {"plain", "auto", "k = 3"}


def test_all_vital_signs_are_printed_and_saved(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [str(Path(sys.executable).with_name("outrider")), "bench", *FEW, "--draft-weights", "int8"]
    done = subprocess.run(
        [*command, "--json", str(file)], capture_output=True, text=True, timeout=800, check=False, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stderr
    for sign in (
        "bandwidth fraction",
        "roofline fraction",
        "v(8)",
        "link round trip",
        "tokens per pass",
        "oracle fraction",
        "plan fraction",
    ):
        assert sign in done.stdout
    signs = json.loads(file.read_text())
    assert signs["setting"]["draft_weights"] == "int8"
    assert signs["target"]["bandwidth_fraction"] > 0
    assert signs["target"]["roofline_fractions"].keys() == signs["target"]["pass_seconds"].keys()
    assert min(signs["target"]["prefill_fraction"], *signs["target"]["roofline_fractions"].values()) > 0
    assert signs["draft"]["step_bytes"] < signs["target"]["step_bytes"]
    assert signs["plan_fractions"].keys() == WAYS - {"plain"}
    assert signs["services"].keys() == {"shared", "apart"}
    for services in signs["services"].values():
        assert services["ways"].keys() == WAYS
        assert services["total_rates"].keys() == {"plain", "auto"}
        assert services["link_round_trip"]["median"] > 0
        for way in services["ways"].values():
            assert way["num_equal"] == way["num_answers"] == 2
            assert way["passes"]["host"]["median"] > 0
        assert services["ways"]["plain"]["tokens_per_pass"] == 1
        verified = services["ways"]["k = 3"]
        if not verified["passes"]["by_position"]:  # a machine can be so busy that no prediction comes in time
            assert verified["tokens_per_pass"] == 1
        assert (verified["passes"]["acceptance"] is None) == (not verified["passes"]["by_position"])


def test_acceptance_is_the_share_of_all_and_of_each_position() -> None:
    """The lookup's, which are there on every machine."""
    with target_server(random_checkpoint(Kind.LLAMA), lookup=True) as target, Client(target.address) as client:
        options = GenerateOptions(max_tokens=48, ignore_eos=True, temperature=0.0, pass_reports=True)
        results = [
            client.generate([5, 77, 130, first] * 8, speculation="always", num_predictions=3, **options)
            for first in (1, 2)
        ]
    reports = [report for result in results for report in result.pass_reports]
    figures = PassFigures.of(results)
    num_predicted = sum(report.predicted for report in reports)
    assert num_predicted > 0
    assert figures.acceptance == sum(report.accepted for report in reports) / num_predicted
    firsts = [report.accepted > 0 for report in reports if report.predicted]
    assert len(figures.by_position) == max(report.predicted for report in reports)
    assert figures.by_position[0] == sum(firsts) / len(firsts)


def test_settings_that_cannot_be_measured_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--new-tokens", "1"]) == 1
    assert capsys.readouterr() == ("", "outrider bench: new_tokens is 1; it must be at least 2\n")


@pytest.mark.exhaustive
def test_a_draft_with_another_vocabulary_is_refused() -> None:
    models = ["--model", "models/demo/target", "--draft-model", str(random_checkpoint(Kind.LLAMA))]
    command = [str(Path(sys.executable).with_name("outrider")), "bench", *models, *FEW]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("outrider bench: the draft refuses the link: the target's vocabulary is another one")
