"""What kubectl makes of deploy/kubernetes, and the settings that services read from arguments in it."""

import argparse
import functools
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from services.draft import command as draft
from services.draft.server import SERVICE as DRAFT_SERVICE
from services.target import command as target
from services.target.server import SERVICE as TARGET_SERVICE

ROOT = Path(__file__).parents[2] / "deploy/kubernetes"
OVERLAYS = sorted(path.name for path in (ROOT / "overlays").iterdir())
SERVICES = {"target": (target, TARGET_SERVICE), "draft": (draft, DRAFT_SERVICE)}

needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="KUBECTL IS NOT INSTALLED: NO MANIFEST IS BUILT"
)


@functools.cache
def resources(overlay: str) -> dict[tuple[str, str], dict[str, Any]]:
    command = ["kubectl", "kustomize", str(ROOT / "overlays" / overlay)]
    manifests = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(manifests)}


def pods(overlay: str) -> dict[str, dict[str, Any]]:
    """The pod template of each service."""
    every = resources(overlay)
    return {
        name: every[kind, name]["spec"]["template"]
        for kind, name in (("Deployment", "target"), ("StatefulSet", "draft"))
    }


def container(overlay: str, name: str, *, of: str = "") -> dict[str, Any]:
    """The container of that name, in the pod of the same name or of another one."""
    (found,) = (each for each in pods(overlay)[of or name]["spec"]["containers"] if each["name"] == name)
    return found


def options(overlay: str, name: str) -> argparse.Namespace:
    """The settings that the service reads from its arguments; a refusal ends the test."""
    return parsed(SERVICES[name][0], container(overlay, name)["args"])


def parsed(command: ModuleType, arguments: list[str]) -> argparse.Namespace:
    return parser_of(command).parse_args(arguments)


@functools.cache
def parser_of(command: ModuleType) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    return parser


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def is_selected(selector: dict[str, str], pod: dict[str, Any]) -> bool:
    return selector.items() <= pod["metadata"]["labels"].items()
