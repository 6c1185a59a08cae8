"""The endpoint picker of deploy/kubernetes: what it refers to exists, and is what the targets have."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.engine.decoder.native import BLOCK_SIZE
from services.service.options import telemetry_config
from services.target.vllm_contract.contract import SERVICE as CONTRACT
from tests.deploy.manifests import (
    OVERLAYS,
    SERVICES,
    container,
    is_selected,
    needs_kubectl,
    options,
    pods,
    port_of,
    resources,
)

PROTOS = Path(__file__).parents[2] / "protos"
PICKED = ("draft-pool", "prefix-routing")
FOLLOWED = "prefix-routing"
# For one target: which one is not for a picker to say.
OF_ONE_TARGET = {"Abort", "FlushCache", "GetLoads", "StartProfile", "StopProfile", "SubscribeKvEvents"}
PRODUCERS = {False: "approx-prefix-cache-producer", True: "precise-prefix-cache-producer"}

pytestmark = needs_kubectl


def picker(overlay: str) -> dict[str, Any]:
    """The pod template of the picker."""
    return resources(overlay)["Deployment", "outrider-picker"]["spec"]["template"]


def config(overlay: str) -> dict[str, Any]:
    """The configuration that the picker's container reads, by its own argument."""
    spec = picker(overlay)["spec"]
    (its,) = spec["containers"]
    (path,) = (Path(each.partition("=")[2]) for each in its["args"] if each.startswith("--config-file="))
    (mount,) = its["volumeMounts"]
    (volume,) = spec["volumes"]
    assert (path.parent, mount["name"]) == (Path(mount["mountPath"]), volume["name"])
    return yaml.safe_load(resources(overlay)["ConfigMap", volume["configMap"]["name"]]["data"][path.name])


def parameters(overlay: str, plugin: str) -> dict[str, Any]:
    (found,) = (each for each in config(overlay)["plugins"] if each["type"] == plugin)
    return found["parameters"]


@pytest.mark.parametrize("overlay", PICKED)
def test_the_pool_holds_the_targets_and_names_the_picker(overlay: str) -> None:
    every, both = resources(overlay), pods(overlay)
    pool = every["InferencePool", "targets"]
    assert pool["apiVersion"] == "inference.networking.k8s.io/v1"
    spec = pool["spec"]
    selected = [is_selected(spec["selector"]["matchLabels"], pod) for pod in (*both.values(), picker(overlay))]
    assert selected == [True, False, False]
    assert spec["targetPorts"] == [{"number": port_of(options(overlay, "target").listen)}]
    assert spec["appProtocol"] == "kubernetes.io/h2c"
    service = every["Service", spec["endpointPickerRef"]["name"]]["spec"]
    (port,) = (each for each in service["ports"] if each["port"] == spec["endpointPickerRef"]["port"]["number"])
    assert is_selected(service["selector"], picker(overlay))
    (its,) = picker(overlay)["spec"]["containers"]
    assert f"--pool-name={pool['metadata']['name']}" in its["args"]
    ports = {each["name"]: each["containerPort"] for each in its["ports"]}
    assert {its[probe]["grpc"]["port"] for probe in ("readinessProbe", "livenessProbe")} == {ports["health"]}
    (rule,) = every["NetworkPolicy", "outrider-picker"]["spec"]["ingress"]
    assert [each["port"] for each in rule["ports"]] == [ports[port["targetPort"]]]


@pytest.mark.parametrize("overlay", PICKED)
def test_the_picker_may_read_what_it_watches(overlay: str) -> None:
    every, name = resources(overlay), picker(overlay)["spec"]["serviceAccountName"]
    assert ("ServiceAccount", name) in every
    binding = every["RoleBinding", name]
    assert [(each["kind"], each["name"]) for each in binding["subjects"]] == [("ServiceAccount", name)]
    rules = every["Role", binding["roleRef"]["name"]]["rules"]
    assert {"pods", "inferencepools"} <= {each for rule in rules for each in rule["resources"]}
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}


@pytest.mark.parametrize("overlay", PICKED)
def test_the_configuration_refers_to_its_own_plugins(overlay: str) -> None:
    its = config(overlay)
    assert (its["apiVersion"], its["kind"]) == ("llm-d.ai/v1alpha1", "EndpointPickerConfig")
    plugins = [each["type"] for each in its["plugins"]]
    assert len(set(plugins)) == len(plugins)
    parsers = [each["pluginRef"] for each in its["requestHandler"]["parsers"]]
    assert parsers == ["vllmgrpc-parser", "passthrough-parser"], "the first that takes a path is asked"
    (profile,) = its["schedulingProfiles"]
    scorers = {each["pluginRef"] for each in profile["plugins"]}
    assert scorers == {"queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer"}
    sources = its.get("dataLayer", {}).get("sources", [])
    fed = {each["pluginRef"] for source in sources for each in (source, *source["extractors"])}
    producer = PRODUCERS[overlay == FOLLOWED]
    assert parameters(overlay, "prefix-cache-scorer") == {"prefixMatchInfoProducerName": producer}
    assert {*parsers, *scorers, *fed, producer} <= {*plugins}
    assert (producer in fed) == (overlay == FOLLOWED), "it learns of targets, and subscribes to them"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_targets_show_metrics_under_the_names_of_their_label(overlay: str) -> None:
    telemetry = telemetry_config(options(overlay, "target"))
    label = pods(overlay)["target"]["metadata"]["labels"].get("llm-d.ai/engine-type")
    assert label == ("vllm" if overlay in PICKED else None)
    assert telemetry.metrics_prefix == (label or "outrider")
    if overlay in PICKED:
        port = port_of(telemetry.metrics_listen or "")
        assert parameters(overlay, "metrics-data-source")["port"] == port
        (rule,) = (
            each
            for each in resources(overlay)["NetworkPolicy", "target"]["spec"]["ingress"]
            if is_selected(each["from"][0]["podSelector"]["matchLabels"], picker(overlay))
        )
        assert [each["port"] for each in rule["ports"]] == [port]


def test_the_picker_follows_the_events_that_targets_publish() -> None:
    arguments, its = options(FOLLOWED, "target"), parameters(FOLLOWED, PRODUCERS[True])
    assert its["tokenProcessorConfig"] == {"blockSizeTokens": BLOCK_SIZE}
    assert arguments.kv_events
    events = its["kvEventsConfig"]
    assert arguments.kv_events_zmq == f"tcp://*:{events['podDiscoveryConfig']['socketPort']}"
    assert "replaySocketPort" not in events["podDiscoveryConfig"]
    topic = arguments.kv_events_topic
    assert topic.startswith(events["topicFilter"])
    assert topic.split("@")[2:] == [""], "a model's name would be hashed with the tokens, and requests name none"
    policy = resources(FOLLOWED)["NetworkPolicy", "kv-events"]["spec"]
    assert is_selected(policy["podSelector"]["matchLabels"], pods(FOLLOWED)["target"])
    (rule,) = policy["ingress"]
    ((peer,), (port,)) = rule["from"], rule["ports"]
    assert is_selected(peer["podSelector"]["matchLabels"], picker(FOLLOWED))
    assert not is_selected(peer["podSelector"]["matchLabels"], pods(FOLLOWED)["target"])
    assert port["port"] == port_of(arguments.kv_events_zmq)
    assert container(FOLLOWED, "target")["ports"][-1]["containerPort"] == port["port"]


def test_only_one_overlay_sends_prompts_to_a_picker_by_zmq() -> None:
    assert [name for name in OVERLAYS if options(name, "target").kv_events] == [FOLLOWED]


@pytest.mark.parametrize("overlay", PICKED)
def test_routes_lead_to_services_that_exist_and_to_no_control(overlay: str) -> None:
    route = resources(overlay)["HTTPRoute", "targets"]
    assert route["apiVersion"] == "gateway.networking.k8s.io/v1"
    (rule,) = route["spec"]["rules"]
    assert rule["backendRefs"] == [{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "targets"}]
    paths = [(each["path"]["type"], each["path"]["value"]) for each in rule["matches"]]
    prefixes = [value.removeprefix("/") for kind, value in paths if kind == "PathPrefix"]
    assert prefixes == [SERVICES["target"][1], "openengine.v1.Inference"]
    assert {*prefixes} <= set(declared("openengine")) | set(declared("outrider"))
    methods = [value.rpartition("/") for kind, value in paths if kind == "Exact"]
    assert {service for service, _, _ in methods} == {f"/{CONTRACT}"}
    assert len(prefixes) + len(methods) == len(paths)


@pytest.mark.parametrize("overlay", PICKED)
def test_routes_lead_to_all_methods_that_any_target_answers(overlay: str) -> None:
    contract = pytest.importorskip("smg_grpc_proto.generated.vllm_engine_pb2").DESCRIPTOR
    methods = {each.name for each in contract.services_by_name["VllmEngine"].methods}
    (rule,) = resources(overlay)["HTTPRoute", "targets"]["spec"]["rules"]
    routed = {each["path"]["value"].rpartition("/")[2] for each in rule["matches"] if each["path"]["type"] == "Exact"}
    assert routed == methods - OF_ONE_TARGET


def declared(package: str) -> list[str]:
    """The full names of the services of a package, as its schemas declare them."""
    return [
        f"{package}.v1.{name}"
        for schema in sorted((PROTOS / package / "v1").glob("*.proto"))
        for name in re.findall(r"^service (\w+)", schema.read_text(), re.MULTILINE)
    ]
