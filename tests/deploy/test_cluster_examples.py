"""The examples for KServe and Dynamo, which no test runs: each says so, and its options and ports are ours."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from services.cli import health
from services.service.options import server_config, telemetry_config
from services.target import command as target
from services.target.server import SERVICE
from tests.deploy.manifests import parsed, port_of

DEPLOY = Path(__file__).parents[2] / "deploy"
EXAMPLES = {name: DEPLOY / name / "outrider.yaml" for name in ("kserve", "dynamo")}


def example(name: str) -> dict[str, Any]:
    return yaml.safe_load(EXAMPLES[name].read_text())["spec"]


def components() -> dict[str, dict[str, Any]]:
    """The pods of the Dynamo example, by the type of their component."""
    return {each["type"]: each["podTemplate"]["spec"] for each in example("dynamo")["components"]}


def pod(name: str) -> dict[str, Any]:
    """The pod that has the target."""
    return example("kserve")["predictor"] if name == "kserve" else components()["worker"]


def target_of(name: str) -> dict[str, Any]:
    (found,) = pod(name)["containers"] if name == "kserve" else pod(name)["initContainers"]
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_says_first_that_it_was_not_run(name: str) -> None:
    text = EXAMPLES[name].read_text()
    assert text.startswith("# NOT RUN: ")
    assert "commit " in text.partition("\napiVersion")[0]


@pytest.mark.parametrize("name", EXAMPLES)
def test_targets_take_their_options_and_find_their_models(name: str) -> None:
    its, spec = target_of(name), pod(name)
    arguments = parsed(target, its["args"])
    server_config(arguments), telemetry_config(arguments)
    (volume,) = spec["volumes"]
    every = [*spec.get("initContainers", []), *spec["containers"]]
    mounts = {(each["name"], each["mountPath"]) for container in every for each in container["volumeMounts"]}
    assert mounts == {(volume["name"], "/models")}
    assert arguments.drain_seconds < spec["terminationGracePeriodSeconds"]
    assert arguments.threads == int(its["resources"]["requests"]["cpu"])
    assert (arguments.device, its["resources"]["limits"]["nvidia.com/gpu"]) == ("cuda:0", "1")


def test_kserve_finds_one_port_and_asks_it_for_health() -> None:
    its = target_of("kserve")
    server = server_config(parsed(target, its["args"]))
    assert its["name"] == "kserve-container"
    assert its["ports"] == [{"name": "h2c", "containerPort": port_of(server.listen), "protocol": "TCP"}]
    assert server.insecure
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert its[probe]["grpc"] == {"port": port_of(server.listen), "service": SERVICE}


def test_dynamo_calls_the_target_on_its_own_loopback() -> None:
    its, (worker,) = target_of("dynamo"), pod("dynamo")["containers"]
    arguments = parsed(target, its["args"])
    server = server_config(arguments)
    assert (worker["name"], its["restartPolicy"]) == ("main", "Always")
    assert not server.insecure
    given = dict(each.removeprefix("--").split("=") for each in worker["args"])
    assert given["grpc-endpoint"] == server.listen
    assert given["model-path"] == arguments.models[0].value
    for probe in ("startupProbe", "readinessProbe"):
        outrider, command, *rest = its[probe]["exec"]["command"]
        asked = port_of(parsed(health, rest).address)
        assert (outrider, command, asked) == ("outrider", "health", port_of(server.listen))
    assert components()["frontend"]["volumes"] == components()["worker"]["volumes"]
