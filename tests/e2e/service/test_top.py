"""outrider top: a target's activity in a terminal."""

import re

import pytest

from outrider import Client
from services.cli import main
from services.cli.top.scrape import Scrape
from tests.e2e.harness.told_pair import ToldPair
from tests.rpc.harness.typed_command import typed


def test_top_shows_running_requests_and_their_callers(
    told: ToldPair, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    with Client(told.address) as client:
        told.generate(client, "def first(", max_tokens=30)
    with told.streaming("def second("):
        assert main(["top", "--metrics-address", told.target_metrics, "--interval", "0.1", "--once"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"running +waiting +tokens/s", shown)
    assert re.search(r"ipv4:127\.0\.0\.1 *\W+1 running, 0 waiting", shown)
    assert re.search(r"up, lost \d+ times, round trip", shown)
    for words in ("KV blocks", "preemptions", "tokens per pass", "draft", "lookup"):
        assert words in shown


def test_q_ends_top_and_leaves_the_terminal_as_it_was(told: ToldPair) -> None:
    with typed("top", "--metrics-address", told.target_metrics, "--interval", "0.1") as command:
        shown = command.until("q ends")
        command.type("xq")
        assert command.wait() == 0
    assert "target · q ends" in shown


def test_counts_are_summed_over_unrequested_labels(told: ToldPair) -> None:
    scrape = Scrape.of(told.target_metrics)
    states = scrape.by("state", "kv_blocks")
    assert states.keys() == {"used", "cached", "empty"}
    assert sum(states.values()) == scrape.total("kv_blocks") > 0


def test_top_reports_an_address_without_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--metrics-address", "127.0.0.1:1", "--once"]) == 1
    assert "outrider top: no metrics at 127.0.0.1:1: " in capsys.readouterr().err
