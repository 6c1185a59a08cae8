"""deploy/kubernetes: what Kubernetes takes, and options that the services really have."""

import argparse
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from services.cli import health
from services.gateway import command as gateway
from services.service.options import server_config, telemetry_config
from tests.deploy.manifests import (
    OVERLAYS,
    ROOT,
    SERVICES,
    container,
    is_selected,
    needs_kubectl,
    options,
    parsed,
    pods,
    port_of,
    resources,
)

OF_EXTENSIONS = ("HTTPRoute", "InferencePool", "PodMonitor")  # whose schemas no package has
ON_CORES = ("cpu", "http")
WITH_HTTP = ("http", "secured-http")
SECURED = [name for name in OVERLAYS if name.startswith("secured")]
ALERTS = ROOT.parent / "observability/rules.yaml"

pytestmark = needs_kubectl


def files(arguments: argparse.Namespace) -> set[Path]:
    """The files that the options name, but for the model."""
    return {value for name, value in vars(arguments).items() if isinstance(value, Path) and name != "model"}


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
def test_services_take_their_options_and_probes_find_their_ports(overlay: str, name: str) -> None:
    arguments, its = options(overlay, name), container(overlay, name)
    server = server_config(arguments)
    scraped = port_of(telemetry_config(arguments).metrics_listen or "")
    named = {"grpc": port_of(server.listen), "metrics": scraped}
    if getattr(arguments, "kv_events_zmq", None) is not None:
        named["kv-events"] = port_of(arguments.kv_events_zmq)
    assert {port["name"]: port["containerPort"] for port in its["ports"]} == named
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if server.tls_certificate is None:
            assert its[probe]["grpc"] == {"port": port_of(server.listen), "service": SERVICES[name][1]}
            continue
        outrider, command, *rest = its[probe]["exec"]["command"]
        asked = parsed(health, rest)
        assert (outrider, command, port_of(asked.address)) == ("outrider", "health", port_of(server.listen))
        assert "grpc" not in its[probe]
        assert asked.tls_ca
        assert asked.tls_cert or not server.tls_client_ca
    (service,) = (each for (kind, of), each in resources(overlay).items() if (kind, of) == ("Service", name))
    assert is_selected(service["spec"]["selector"], pods(overlay)[name])
    assert [port["port"] for port in service["spec"]["ports"]] == [port_of(server.listen)]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_target_knows_each_draft_by_its_name(overlay: str) -> None:
    drafts = resources(overlay)["StatefulSet", "draft"]["spec"]
    port = port_of(options(overlay, "draft").listen)
    expected = [f"draft-{index}.{drafts['serviceName']}:{port}" for index in range(drafts["replicas"])]
    assert [each.value for each in options(overlay, "target").draft] == expected


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_streams_end_before_a_target_is_killed(overlay: str) -> None:
    arguments, spec = options(overlay, "target"), pods(overlay)["target"]["spec"]
    before = container(overlay, "target")["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert before + arguments.drain_seconds < spec["terminationGracePeriodSeconds"]
    assert arguments.max_streams_per_caller == arguments.max_sequences + arguments.max_queue


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_is_unprivileged_and_has_its_own_cores_or_gpu(overlay: str, name: str) -> None:
    spec, its = pods(overlay)[name]["spec"], container(overlay, name)
    assert spec["securityContext"]["runAsNonRoot"]
    assert its["securityContext"]["readOnlyRootFilesystem"]
    assert its["securityContext"]["capabilities"]["drop"] == ["ALL"]
    arguments, resource = options(overlay, name), its["resources"]
    assert arguments.threads == int(resource["requests"]["cpu"])
    if overlay in ON_CORES:
        assert resource["requests"] == resource["limits"]
    else:
        assert (arguments.device, resource["limits"]["nvidia.com/gpu"]) == ("cuda:0", "1")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_drafts_talk_to_targets_only(overlay: str) -> None:
    policy = resources(overlay)["NetworkPolicy", "draft"]["spec"]
    both = pods(overlay)
    assert is_selected(policy["podSelector"]["matchLabels"], both["draft"])
    links, scrapes = policy["ingress"]
    ((rule,), ports) = links["from"], links["ports"]
    assert is_selected(rule["podSelector"]["matchLabels"], both["target"])
    assert not is_selected(rule["podSelector"]["matchLabels"], both["draft"])
    assert [port["port"] for port in ports] == [port_of(options(overlay, "draft").listen)]
    assert [port["port"] for port in scrapes["ports"]] == [9464]
    assert policy["egress"] == []


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_network_policies_select_other_pods_by_their_own_labels(overlay: str) -> None:
    """A name server that had to be called outrider too would not be reached, and no draft be found."""
    policy = resources(overlay)["NetworkPolicy", "target"]["spec"]
    peers = [peer["podSelector"]["matchLabels"] for rule in policy["ingress"] for peer in rule["from"]]
    assert peers == [{"outrider-client": "true"}, {"outrider-scraper": "true"}]
    (link,), (names,) = (rule["to"] for rule in policy["egress"])
    assert is_selected(link["podSelector"]["matchLabels"], pods(overlay)["draft"])
    assert names["podSelector"]["matchLabels"] == {"k8s-app": "kube-dns"}


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_overlay_sets_clear_text_and_secrets_consistently(overlay: str, name: str) -> None:
    arguments, its, spec = options(overlay, name), container(overlay, name), pods(overlay)[name]["spec"]
    is_secured = overlay in SECURED
    assert arguments.insecure == (not is_secured)
    assert (arguments.tls_certificate is not None) == is_secured
    (service,) = (each for (kind, of), each in resources(overlay).items() if (kind, of) == ("Service", name))
    assert service["spec"]["ports"][0]["appProtocol"] == ("https" if is_secured else "kubernetes.io/h2c")
    named = files(arguments)
    if is_secured:
        named |= files(parsed(health, its["readinessProbe"]["exec"]["command"][2:]))
    secrets = {each["name"]: each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each}
    mounts = {Path(each["mountPath"]): each["name"] for each in its["volumeMounts"]}
    found = {(secrets[mounts[file.parent]], file.name) for file in named}
    tls = {(f"{name}-tls", item) for item in ("tls.crt", "tls.key", "ca.crt")}
    tokens = {("target-tokens", "tokens")} if name == "target" else set()
    assert found == (tls | tokens if is_secured else set())


@pytest.mark.parametrize("overlay", SECURED)
def test_drafts_and_targets_know_each_other_by_certificates(overlay: str) -> None:
    target, draft = options(overlay, "target"), options(overlay, "draft")
    assert draft.tls_client_ca == target.draft_tls_ca
    assert (target.draft_tls_cert, target.draft_tls_key) == (target.tls_certificate, target.tls_key)


def test_a_secured_pool_is_the_same_pool() -> None:
    plain, secured = "draft-pool", "secured-draft-pool"
    assert options(secured, "target").draft == options(plain, "target").draft
    scaled = [resources(name)["HorizontalPodAutoscaler", "target"]["spec"] for name in (plain, secured)]
    assert scaled[0] | {"metrics": None} == scaled[1] | {"metrics": None}


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("overlay", SECURED)
def test_prometheus_finds_the_pods_and_alerts_use_its_jobs(overlay: str, name: str) -> None:
    monitor = resources(overlay)["PodMonitor", name]["spec"]
    assert is_selected(monitor["selector"]["matchLabels"], pods(overlay)[name])
    ((end),) = monitor["podMetricsEndpoints"]
    assert end["port"] in {port["name"] for port in container(overlay, name)["ports"]}
    ((relabelled),) = end["relabelings"]
    assert relabelled["targetLabel"] == "job"
    jobs = set(re.findall(r'job=~"([^"]*)"', ALERTS.read_text()))
    assert all(re.fullmatch(job, relabelled["replacement"]) for job in jobs)
    assert jobs


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_disruption_budgets_and_scaling_select_existing_pods(overlay: str) -> None:
    every, both = resources(overlay), pods(overlay)
    for name in SERVICES:
        assert is_selected(every["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"], both[name])
    scaled = every["HorizontalPodAutoscaler", "target"]["spec"]["scaleTargetRef"]
    assert (scaled["kind"], scaled["name"]) in every
    assert "replicas" not in every[scaled["kind"], scaled["name"]]["spec"], "it is not for two to say"
    (metric,) = every["HorizontalPodAutoscaler", "target"]["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == f"{options(overlay, 'target').metrics_prefix}_num_requests_waiting"


@pytest.mark.parametrize("overlay", WITH_HTTP)
def test_the_gateway_prefers_its_own_target_and_is_reached(overlay: str) -> None:
    every, pod = resources(overlay), pods(overlay)["target"]
    its, own = container(overlay, "gateway", of="target"), container(overlay, "target")
    arguments = parsed(gateway, its["args"])
    port = port_of(options(overlay, "target").listen)
    assert arguments.target == [f"localhost:{port}", f"{every['Service', 'target']['metadata']['name']}:{port}"]
    assert (its["image"], its["securityContext"]) == (own["image"], own["securityContext"])
    assert its["resources"]["requests"] == its["resources"]["limits"]
    before = its["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert before + arguments.drain_seconds < pod["spec"]["terminationGracePeriodSeconds"]
    assert [each["containerPort"] for each in its["ports"]] == [port_of(arguments.listen)]
    service = every["Service", "gateway"]["spec"]
    assert is_selected(service["selector"], pod)
    assert service["ports"][0]["targetPort"] == its["ports"][0]["name"] == its["readinessProbe"]["tcpSocket"]["port"]


@pytest.mark.parametrize("overlay", WITH_HTTP)
def test_the_gateways_policy_lets_in_clients_and_other_targets(overlay: str) -> None:
    pod, policy = pods(overlay)["target"], resources(overlay)["NetworkPolicy", "gateway"]["spec"]
    clients, targets = policy["ingress"]
    assert is_selected(policy["podSelector"]["matchLabels"], pod)
    assert clients["from"][0]["podSelector"]["matchLabels"] == {"outrider-client": "true"}
    assert clients["ports"][0]["port"] == port_of(
        parsed(gateway, container(overlay, "gateway", of="target")["args"]).listen
    )
    for (peer,), ports in (
        (targets["from"], targets["ports"]),
        (policy["egress"][0]["to"], policy["egress"][0]["ports"]),
    ):
        assert is_selected(peer["podSelector"]["matchLabels"], pod)
        assert [port["port"] for port in ports] == [port_of(options(overlay, "target").listen)]


def test_a_secured_gateway_speaks_tls_to_both_sides() -> None:
    overlay = "secured-http"
    its, target = container(overlay, "gateway", of="target"), options(overlay, "target")
    arguments = parsed(gateway, its["args"])
    assert not arguments.insecure
    assert (arguments.tls_cert, arguments.tls_key) == (target.tls_certificate, target.tls_key)
    assert arguments.target_tls_ca == target.draft_tls_ca
    mounts = {each["mountPath"]: each for each in container(overlay, "target")["volumeMounts"]}
    assert its["volumeMounts"] == [mounts[str(arguments.tls_cert.parent)]]
    (port,) = resources(overlay)["Service", "gateway"]["spec"]["ports"]
    assert (port["port"], port["appProtocol"]) == (443, "https")
