"""deploy/kubernetes: what Kubernetes takes, and options that the services really have."""

import argparse
import functools
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.draft import command as draft
from services.draft.server import SERVICE as DRAFT_SERVICE
from services.service.options import server_config
from services.target import command as target
from services.target.server import SERVICE as TARGET_SERVICE

ROOT = Path(__file__).parents[2] / "deploy/kubernetes"
OVERLAYS = sorted(path.name for path in (ROOT / "overlays").iterdir())
SERVICES = {"target": (target, TARGET_SERVICE), "draft": (draft, DRAFT_SERVICE)}
OF_EXTENSIONS = ("HTTPRoute", "InferencePool")  # whose schemas no package has

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="KUBECTL IS NOT INSTALLED: NO MANIFEST IS BUILT"
)


@functools.cache
def build(overlay: str) -> str:
    command = ["kubectl", "kustomize", str(ROOT / "overlays" / overlay)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def resources(overlay: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(build(overlay))}


def pods(overlay: str) -> dict[str, dict[str, Any]]:
    """The pod template of each service."""
    every = resources(overlay)
    return {
        name: every[kind, name]["spec"]["template"]
        for kind, name in (("Deployment", "target"), ("StatefulSet", "draft"))
    }


def container(overlay: str, name: str) -> dict[str, Any]:
    (only,) = pods(overlay)[name]["spec"]["containers"]
    return only


def options(overlay: str, name: str) -> argparse.Namespace:
    """What the service reads from its arguments; ends the test where it would refuse them."""
    parser = argparse.ArgumentParser()
    SERVICES[name][0].add_options(parser)
    return parser.parse_args(container(overlay, name)["args"])


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def is_selected(selector: dict[str, str], pod: dict[str, Any]) -> bool:
    return selector.items() <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_takes_it(overlay: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("kubernetes_validate") is None:
        pytest.skip("KUBERNETES-VALIDATE IS NOT INSTALLED (make deploy-test INSTALLS IT): NO SCHEMA IS CHECKED")
    known = [each for (kind, _), each in resources(overlay).items() if kind not in OF_EXTENSIONS]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(known))
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", str(tmp_path / "all.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARN" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_service_takes_its_options_and_is_asked_for_health_where_it_listens(overlay: str, name: str) -> None:
    arguments, its = options(overlay, name), container(overlay, name)
    server = server_config(arguments)
    assert [port["containerPort"] for port in its["ports"]] == [port_of(server.listen)]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert its[probe]["grpc"] == {"port": port_of(server.listen), "service": SERVICES[name][1]}
    (service,) = (each for (kind, of), each in resources(overlay).items() if (kind, of) == ("Service", name))
    assert is_selected(service["spec"]["selector"], pods(overlay)[name])
    assert [port["port"] for port in service["spec"]["ports"]] == [port_of(server.listen)]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_target_knows_each_draft_by_its_name(overlay: str) -> None:
    drafts = resources(overlay)["StatefulSet", "draft"]["spec"]
    port = port_of(options(overlay, "draft").listen)
    expected = [f"draft-{index}.{drafts['serviceName']}:{port}" for index in range(drafts["replicas"])]
    assert options(overlay, "target").draft == expected


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_running_streams_end_before_a_target_is_killed_and_its_gateway_is_not_limited(overlay: str) -> None:
    arguments, spec = options(overlay, "target"), pods(overlay)["target"]["spec"]
    before = container(overlay, "target")["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert before + arguments.drain_seconds < spec["terminationGracePeriodSeconds"]
    assert arguments.max_streams_per_connection == arguments.max_sequences + arguments.max_queue


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_may_do_little_and_has_what_it_computes_on_for_itself(overlay: str, name: str) -> None:
    spec, its = pods(overlay)[name]["spec"], container(overlay, name)
    assert spec["securityContext"]["runAsNonRoot"]
    assert its["securityContext"]["readOnlyRootFilesystem"]
    assert its["securityContext"]["capabilities"]["drop"] == ["ALL"]
    arguments, resource = options(overlay, name), its["resources"]
    assert arguments.threads == int(resource["requests"]["cpu"])
    if overlay == "cpu":
        assert resource["requests"] == resource["limits"]
    else:
        assert (arguments.device, resource["limits"]["nvidia.com/gpu"]) == ("cuda:0", "1")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_drafts_talk_to_targets_only(overlay: str) -> None:
    policy = resources(overlay)["NetworkPolicy", "draft"]["spec"]
    both = pods(overlay)
    assert is_selected(policy["podSelector"]["matchLabels"], both["draft"])
    ((rule,), ports) = policy["ingress"][0]["from"], policy["ingress"][0]["ports"]
    assert is_selected(rule["podSelector"]["matchLabels"], both["target"])
    assert not is_selected(rule["podSelector"]["matchLabels"], both["draft"])
    assert [port["port"] for port in ports] == [port_of(options(overlay, "draft").listen)]
    assert policy["egress"] == []


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_budgets_and_scaling_are_about_what_there_is(overlay: str) -> None:
    every, both = resources(overlay), pods(overlay)
    for name in SERVICES:
        assert is_selected(every["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"], both[name])
    scaled = every["HorizontalPodAutoscaler", "target"]["spec"]["scaleTargetRef"]
    assert (scaled["kind"], scaled["name"]) in every
    assert "replicas" not in every[scaled["kind"], scaled["name"]]["spec"], "it is not for two to say"


def test_the_pool_holds_the_targets_and_the_route_leads_to_it() -> None:
    every = resources("draft-pool")
    pool, route = every["InferencePool", "targets"], every["HTTPRoute", "targets"]
    assert (pool["apiVersion"], route["apiVersion"]) == (
        "inference.networking.k8s.io/v1",
        "gateway.networking.k8s.io/v1",
    )
    spec, both = pool["spec"], pods("draft-pool")
    assert [is_selected(spec["selector"]["matchLabels"], both[name]) for name in ("target", "draft")] == [True, False]
    assert spec["targetPorts"] == [{"number": port_of(options("draft-pool", "target").listen)}]
    assert spec["appProtocol"] == "kubernetes.io/h2c"
    assert spec["endpointPickerRef"]["port"]["number"] == 9002
    ((rule),) = route["spec"]["rules"]
    assert rule["matches"][0]["path"]["value"] == f"/{TARGET_SERVICE}"
    assert rule["backendRefs"] == [{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "targets"}]
