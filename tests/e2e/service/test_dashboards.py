"""deploy/observability: the metrics, labels and ports that it uses exist."""

import argparse
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
import yaml

from outrider import Client
from services.draft import command as draft
from services.service.options import telemetry_config
from services.target import command as target
from tests.e2e.harness.models import ROOT
from tests.e2e.harness.told_pair import ToldPair

FOLDER = ROOT / "deploy" / "observability"
COMMANDS = {"target": target, "draft": draft}
COMPOSE = yaml.safe_load((ROOT / "compose.observability.yaml").read_text())["services"]
_NAME = re.compile(r"(?:outrider|vllm):\w+")
_SELECTOR = re.compile(r"((?:outrider|vllm):\w+)\{([^}]*)\}")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!=|!~|=)")
_GROUPED = re.compile(r"\bby \(([^)]*)\) \(rate\((outrider:\w+)")
ADDED = {"job", "instance"}  # by Prometheus


def panels() -> list[dict[str, Any]]:
    return [each for each in json.loads((FOLDER / "dashboard.json").read_text())["panels"] if each["type"] != "row"]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Each with the title of what it is for."""
    for panel in panels():
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    yield from ((rule["alert"], rule["expr"]) for rule in rules())


@pytest.fixture(scope="module")
def served(told: ToldPair) -> dict[str, set[str]]:
    """The labels of every sample that the two services serve while one request is running, by its name."""
    labels: dict[str, set[str]] = {}
    with Client(told.address) as client:
        told.generate(client, "def first(", max_tokens=30)
    with told.streaming("def second("):
        for name, has in chain(told.scrape(), told.scrape(told.draft_metrics)):
            labels.setdefault(name, set()).update(dict(has))
    return labels


@pytest.mark.parametrize(("title", "expression"), [*expressions()])
def test_metrics_in_expressions_are_served(served: dict[str, set[str]], title: str, expression: str) -> None:
    names = set(_NAME.findall(expression))
    assert names <= served.keys(), title
    for name, selector in _SELECTOR.findall(expression):
        assert set(_LABEL.findall(selector)) <= served[name] | ADDED, title
    for labels, name in _GROUPED.findall(expression):
        assert set(re.findall(r"\w+", labels)) <= served[name] | ADDED, title


def test_each_panel_has_its_own_place_and_balanced_expressions() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len({*places}) == len(places) > 20
    assert len({panel["title"] for panel in panels()}) == len(places)
    assert all(
        expression.count(left) == expression.count(right)
        for _, expression in expressions()
        for left, right in ("()", "{}", "[]")
    )


def test_prometheus_finds_no_fault_with_the_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("PROMTOOL IS NOT INSTALLED: THE SYNTAX OF THE RULES IS NOT CHECKED")
    for arguments in (["check", "rules", "rules.yaml"], ["check", "config", "prometheus.yml"]):
        done = subprocess.run([promtool, *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_services_serve_where_prometheus_looks(name: str) -> None:
    program, command, *options = COMPOSE[name]["entrypoint"]
    assert (program, command) == ("outrider", name)
    parser = argparse.ArgumentParser()
    COMMANDS[name].add_options(parser)
    told = telemetry_config(parser.parse_args([*options, "--model", "folder"]))
    jobs = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    looked_at = [address for job in jobs for config in job["static_configs"] for address in config["targets"]]
    assert f"{name}:{port_of(told.metrics_listen)}" in looked_at
    receiver = yaml.safe_load((FOLDER / "collector.yaml").read_text())["receivers"]["otlp"]["protocols"]["grpc"]
    assert told.otlp_endpoint == f"http://collector:{port_of(receiver['endpoint'])}"


def port_of(address: str | None) -> str:
    assert address is not None
    return address.rpartition(":")[2]


def test_mounted_files_exist() -> None:
    volumes = [volume for service in COMPOSE.values() for volume in service.get("volumes", [])]
    assert len(volumes) == 5
    assert all((ROOT / volume.split(":")[0]).exists() for volume in volumes)
