"""compose.yaml and what stands beside it: they name only what the services and the images really have."""

import argparse
import re
from pathlib import Path

import pytest
import yaml

from services.cli import main
from services.draft import command as draft
from services.target import command as target

ROOT = Path(__file__).parents[3]
COMMANDS = {"target": target, "draft": draft}


def load(name: str) -> dict:
    """A compose file with the default of every variable."""
    return yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (ROOT / name).read_text()))


BASE, GPU = load("compose.yaml")["services"], load("compose.gpu.yaml")["services"]


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
    model = Path(arguments.models[0].value) if name == "target" else arguments.model
    assert arguments.drain_seconds < seconds(service["stop_grace_period"])
    mounted, inside, mode = service["volumes"][0].split(":")
    assert mode == "ro"
    assert (ROOT / mounted / model.relative_to(inside) / "config.json").exists()
    assert all(port_of(published) == port_of(arguments.listen) for published in service.get("ports", []))


@pytest.mark.parametrize("name", BASE)
def test_health_is_asked_where_the_service_listens(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, program, *arguments = BASE[name]["healthcheck"]["test"]
    assert (command, program) == ("CMD", "outrider")
    assert port_of(arguments[-1]) == port_of(parse(name, BASE[name]["command"]).listen)
    assert main([*arguments[:-1], "--address=localhost:1"]) == 1
    assert capsys.readouterr().out == "localhost:1 is not serving\n"


def test_the_target_looks_for_the_draft_where_it_listens_and_starts_without_it() -> None:
    listen = parse("draft", BASE["draft"]["command"]).listen
    (draft,) = parse("target", BASE["target"]["command"]).draft
    assert draft == ("", f"draft:{port_of(listen)}")
    assert "depends_on" not in BASE["target"]


@pytest.mark.parametrize("name", BASE)
def test_the_image_runs_the_service_and_shows_its_port(name: str) -> None:
    dockerfile = (ROOT / BASE[name]["build"]["dockerfile"]).read_text()
    assert dockerfile.endswith(f'ENTRYPOINT ["outrider", "{name}"]\n')
    assert f"EXPOSE {port_of(parse(name, BASE[name]['command']).listen)}\n" in dockerfile


def test_the_images_differ_in_nothing_but_the_service() -> None:
    ours, other = ((ROOT / BASE[name]["build"]["dockerfile"]).read_text().splitlines() for name in ("target", "draft"))
    assert len(ours) == len(other)
    differing = [line.split()[0] for line, their in zip(ours, other, strict=True) if line != their]
    assert differing == ["#", "EXPOSE", "ENTRYPOINT"]


def test_each_service_gets_a_gpu_of_its_own() -> None:
    assert GPU.keys() == BASE.keys()
    reserved = [GPU[name]["deploy"]["resources"]["reservations"]["devices"] for name in GPU]
    assert [len(devices) for devices in reserved] == [1, 1]
    assert len({device_id for (device,) in reserved for device_id in device["device_ids"]}) == 2


@pytest.mark.parametrize("name", GPU)
def test_the_gpu_images_are_built_and_started_for_a_gpu(name: str) -> None:
    if "OUTRIDER_CUDA" not in (ROOT / "native/cmake/cuda.cmake").read_text():
        pytest.skip("NO CUDA BACKEND IN THIS TREE: WHAT compose.gpu.yaml ASKS OF IT IS NOT TESTED")
    build_arguments = GPU[name]["build"]["args"].keys()
    dockerfile = (ROOT / BASE[name]["build"]["dockerfile"]).read_text()
    assert build_arguments <= set(re.findall(r"^ARG (\w+)", dockerfile, re.MULTILINE))
    program, service, *options = GPU[name]["entrypoint"]
    assert (program, service) == ("outrider", name)
    parse(name, [*options, *BASE[name]["command"]])


def test_every_variable_is_documented() -> None:
    documented = (ROOT / "docs/operate/deployment.md").read_text()
    for name in ("compose.yaml", "compose.gpu.yaml"):
        for variable in re.findall(r"\$\{(\w+)", (ROOT / name).read_text()):
            assert f"`{variable}`" in documented
