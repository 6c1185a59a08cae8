"""compose.yaml and the files beside it name only options that the services and the images really have."""

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from services.cli import health, main
from services.draft import command as draft
from services.engine.config import ConfigError, EngineConfig
from services.gateway import command as gateway
from services.service.options import engine_config
from services.target import command as target

ROOT = Path(__file__).parents[3]
COMMANDS = {"target": target, "draft": draft, "gateway": gateway}
ENGINES = ("target", "draft")


def load(name: str, **variables: str) -> dict:
    """The services of a compose file, with the default of every other variable."""
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda match: variables.get(match[1], match[2]), (ROOT / name).read_text())
    return yaml.safe_load(text)["services"]


BASE, GPU, TLS = load("compose.yaml"), load("compose.gpu.yaml"), load("compose.tls.yaml")
TWO = load("compose.two-targets.yaml")


def parse(name: str, options: list[str]) -> argparse.Namespace:
    """What the service itself reads from its options; ends the test where it would refuse them."""
    parser = argparse.ArgumentParser()
    COMMANDS[name].add_options(parser)
    return parser.parse_args(options)


def port_of(address: str) -> str:
    return address.rpartition(":")[2]


def seconds(duration: str) -> int:
    assert duration.endswith("s")
    return int(duration.removesuffix("s"))


@pytest.mark.parametrize("name", BASE)
def test_the_command_is_one_that_the_service_takes(name: str) -> None:
    service = BASE[name]
    arguments = parse(name, service["command"])
    assert arguments.drain_seconds < seconds(service["stop_grace_period"])
    assert all(port_of(published) == port_of(arguments.listen) for published in service.get("ports", []))


@pytest.mark.parametrize("name", ENGINES)
def test_a_model_is_a_path_in_the_mounted_folder(name: str) -> None:
    arguments = parse(name, BASE[name]["command"])
    model = arguments.models[0].value if name == "target" else arguments.model
    mounted, inside, mode = BASE[name]["volumes"][0].split(":")
    assert (inside, mode) == (BASE[name]["working_dir"], "ro")
    assert (ROOT / mounted / str(model) / "config.json").exists()


@pytest.mark.parametrize("name", ENGINES)
def test_a_service_keeps_its_files_on_a_writable_volume(name: str) -> None:
    volume, inside = BASE[name]["volumes"][1].split(":")
    assert volume in yaml.safe_load((ROOT / "compose.yaml").read_text())["volumes"]
    for kept in ("OUTRIDER_WEIGHTS_CACHE", "HF_HOME"):
        assert Path(BASE[name]["environment"][kept]).parent == Path(inside)
    dockerfile = (ROOT / BASE[name]["build"]["dockerfile"]).read_text()
    user, group = re.search(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE).groups()
    assert f"--owner={user} --group={group} {inside}\n" in dockerfile


@pytest.mark.parametrize("name", ENGINES)
def test_health_is_asked_where_the_service_listens(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, program, *arguments = BASE[name]["healthcheck"]["test"]
    assert (command, program) == ("CMD", "outrider")
    assert port_of(arguments[-1]) == port_of(parse(name, BASE[name]["command"]).listen)
    assert main([*arguments[:-1], "--address=localhost:1"]) == 1
    assert capsys.readouterr().out.startswith("localhost:1 is not serving")


def test_the_gateway_uses_the_targets_image_and_address() -> None:
    service = BASE["gateway"]
    assert service["profiles"] == ["http"]
    assert service["build"] == BASE["target"]["build"]
    assert "ARG OUTRIDER_EXTRAS=[gateway]\n" in (ROOT / service["build"]["dockerfile"]).read_text()
    assert service["entrypoint"] == ["outrider", "gateway"]
    arguments = parse("gateway", service["command"])
    assert arguments.target == [f"target:{port_of(parse('target', BASE['target']['command']).listen)}"]
    assert f"http://localhost:{port_of(arguments.listen)}/health" in service["healthcheck"]["test"][-1]


def test_the_target_finds_the_draft_and_starts_without_it() -> None:
    listen = parse("draft", BASE["draft"]["command"]).listen
    (draft,) = parse("target", BASE["target"]["command"]).draft
    assert draft == ("", f"draft:{port_of(listen)}")
    assert "depends_on" not in BASE["target"]


@pytest.mark.parametrize("name", ENGINES)
def test_the_image_runs_the_service_and_shows_its_port(name: str) -> None:
    """Its stage says nothing else, so that both images share all other layers."""
    port = port_of(parse(name, BASE[name]["command"]).listen)
    dockerfile = (ROOT / BASE[name]["build"]["dockerfile"]).read_text()
    (stage,) = re.findall(rf"^FROM service AS {BASE[name]['build']['target']}\n((?:.+\n)+)", dockerfile, re.MULTILINE)
    assert stage == f'EXPOSE {port}\nENTRYPOINT ["outrider", "{name}"]\n'


@pytest.mark.parametrize("file", ["compose.gpu.yaml", "compose.observability.yaml"])
def test_all_compose_files_build_images_alike(file: str) -> None:
    """Or they would share no layers, and compile everything again."""
    builds = [service["build"] for service in load(file).values() if "build" in service]
    dockerfile = (ROOT / BASE["target"]["build"]["dockerfile"]).read_text()
    assert builds == [builds[0]] * len(BASE)
    assert builds[0]["args"].keys() <= set(re.findall(r"^ARG (\w+)", dockerfile, re.MULTILINE))


def gpu_configuration(name: str, monkeypatch: pytest.MonkeyPatch, **variables: str) -> EngineConfig:
    """What a service makes of the GPU file on a machine with one GPU."""
    service = load("compose.gpu.yaml", **variables)[name]
    program, command, *options = service["entrypoint"]
    assert (program, command) == ("outrider", name)
    for variable, value in (BASE[name]["environment"] | service["environment"]).items():
        monkeypatch.setenv(variable, value or "")
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90"])
    monkeypatch.setattr("services.engine.config.cuda_problem", lambda: "")
    return engine_config(parse(name, [*options, *BASE[name]["command"]]), Path())


@pytest.mark.parametrize("name", ENGINES)
def test_each_service_is_started_on_a_gpu_that_it_can_see(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_configuration(name, monkeypatch).device == "cuda:0"
    (reserved,) = GPU[name]["deploy"]["resources"]["reservations"]["devices"]
    assert reserved == {"driver": "nvidia", "count": "all", "capabilities": ["gpu", "compute", "utility"]}


def test_target_and_draft_share_one_gpu_in_any_start_order(monkeypatch: pytest.MonkeyPatch) -> None:
    target, draft = (gpu_configuration(name, monkeypatch) for name in ENGINES)
    assert target.gpu_memory_fraction < draft.gpu_memory_fraction
    assert draft.kv_memory is not None


def test_a_missing_second_gpu_is_refused_with_those_present(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^device is 'cuda:1'; it must be one of cpu, cuda:0$"):
        gpu_configuration("draft", monkeypatch, OUTRIDER_DRAFT_DEVICE="cuda:1")


@pytest.mark.parametrize("name", BASE)
def test_over_tls_a_service_has_the_same_options_but_for_files(name: str) -> None:
    plain, secured = parse(name, BASE[name]["command"]), parse(name, TLS[name]["command"])
    changed = {field for field, value in vars(secured).items() if value != getattr(plain, field)}
    assert {"insecure", "tls_key"} <= changed
    assert all(field == "insecure" or "tls" in field for field in changed)
    assert (plain.insecure, secured.insecure) == (True, False)
    (mounted,) = {volume.split(":")[1] for volume in TLS[name]["volumes"]}
    assert {value.parent for field in changed - {"insecure"} if (value := getattr(secured, field))} == {Path(mounted)}


@pytest.mark.parametrize("name", ENGINES)
def test_over_tls_health_is_asked_with_the_certificates_it_needs(name: str) -> None:
    _, program, command, *arguments = TLS[name]["healthcheck"]["test"]
    parser = argparse.ArgumentParser()
    health.add_options(parser)
    asked, served = parser.parse_args(arguments), parse(name, TLS[name]["command"])
    assert (program, command, port_of(asked.address)) == ("outrider", "health", port_of(served.listen))
    assert asked.tls_ca == Path("/certificates/ca.pem")
    assert (asked.tls_cert is not None) == (served.tls_client_ca is not None)


def test_a_services_certificates_are_made_as_the_page_says(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("OPENSSL IS NOT INSTALLED: THE RECIPE FOR CERTIFICATES IS NOT RUN")
    page = (ROOT / "docs/operate/security.md").read_text()
    (recipe,) = re.findall(r"\n\n((?:    .*\n)*    openssl (?:.*\n)*?)\n", page)
    subprocess.run(["bash", "-euc", recipe], cwd=tmp_path, check=True, capture_output=True)
    wanted = {
        Path(option.partition("=")[2]).name
        for service in TLS.values()
        for option in service["command"]
        if "-tls-" in option
    }
    assert wanted <= {path.name for path in tmp_path.iterdir()}
    for name in TLS:
        command = ["openssl", "verify", "-CAfile", "ca.pem", "-verify_hostname", name, f"{name}.pem"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize("name", TWO)
def test_of_two_each_is_restricted_built_and_drained_as_one_is(name: str) -> None:
    service, kind = TWO[name], name.partition("-")[0]
    own = {"command", "image", "deploy", "environment", "build", "ports", "healthcheck", "profiles", "cpuset"}
    own.add("depends_on")
    assert {key: value for key, value in service.items() if key not in own} == {
        key: value for key, value in BASE[kind].items() if key not in own
    }
    assert service["build"] == BASE[kind]["build"] | GPU[kind]["build"]
    assert service["healthcheck"]["test"] == BASE[kind]["healthcheck"]["test"]
    options, one = parse(kind, service["command"]), parse(kind, BASE[kind]["command"])
    assert (options.listen, options.insecure, options.drain_seconds) == (one.listen, one.insecure, one.drain_seconds)
    assert all(port_of(published) == port_of(options.listen) for published in service.get("ports", []))


@pytest.mark.parametrize("name", ENGINES)
def test_of_two_each_has_its_gpu_and_shares_it_with_its_draft(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = gpu_configuration(name, monkeypatch)
    monkeypatch.setattr("services.engine.config.cuda_devices", lambda: ["cuda-sm_90", "cuda-sm_90"])
    for number in range(2):
        service = TWO[f"{name}-{number}"]
        config = engine_config(parse(name, service["command"]), Path())
        assert config.device == f"cuda:{number}"
        assert (config.gpu_memory_fraction, config.kv_memory) == (one.gpu_memory_fraction, one.kv_memory)
        assert service["deploy"] == GPU[name]["deploy"]
        assert service["environment"].items() >= (GPU[name]["environment"].items() - {("OUTRIDER_WEIGHTS_CACHE", "")})


def test_of_two_each_gateway_prefers_its_target_and_knows_both() -> None:
    port = port_of(parse("target", TWO["target-0"]["command"]).listen)
    for number in range(2):
        (draft,) = parse("target", TWO[f"target-{number}"]["command"]).draft
        assert draft.value == f"draft-{number}:{port_of(parse('draft', TWO[f'draft-{number}']['command']).listen)}"
        targets = parse("gateway", TWO[f"gateway-{number}"]["command"]).target
        assert targets == [f"target-{number}:{port}", f"target-{1 - number}:{port}"]
        assert TWO[f"gateway-{number}"]["depends_on"] == {f"target-{number}": {"condition": "service_healthy"}}
    published = [port.rpartition(":")[0] for service in TWO.values() for port in service.get("ports", [])]
    assert len(published) == len(set(published)) == 4


def test_every_variable_is_documented() -> None:
    documented = (ROOT / "docs/operate/deployment.md").read_text()
    for name in ("compose.yaml", "compose.gpu.yaml", "compose.tls.yaml", "compose.two-targets.yaml"):
        for variable in re.findall(r"\$\{(\w+)", (ROOT / name).read_text()):
            assert f"`{variable}`" in documented
