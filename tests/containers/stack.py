"""Stack: the services of compose.yaml and its gateway as containers, under a project name of their own."""

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from tests.containers.base_image import BASE_IMAGE
from tests.harness.network.free_port import free_port
from tests.harness.servers.server import wait_until

ROOT = Path(__file__).parents[2]
_PROJECT = "outrider-smoke"
_FILES = (ROOT / "compose.yaml", Path(__file__).with_name("podman-4.3.yaml"))
SERVICES = ("target", "draft", "gateway")
_PODMAN_COMPOSE = str(Path(sys.executable).with_name("podman-compose"))


class Stack:
    """A target and a draft, each with half of the cores where there are two, and a gateway; the ports are free here."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.address, self.http_address = (f"127.0.0.1:{free_port()}" for _ in range(2))
        cores = sorted(os.sched_getaffinity(0))
        half = (len(cores) + 1) // 2
        self._environment = {
            **environment,
            "OUTRIDER_PUBLISH": self.address,
            "OUTRIDER_HTTP_PUBLISH": self.http_address,
            "OUTRIDER_TARGET_CPUS": _cpuset(cores[:half]),
            "OUTRIDER_DRAFT_CPUS": _cpuset(cores[half:] or cores),
        }

    def build(self, volumes: Collection[str]) -> None:
        """Build the images on the base image, with these volumes mounted meanwhile."""
        options = ["--pull=never", f"--build-arg=PYTHON_IMAGE={BASE_IMAGE}", *(f"--volume={one}" for one in volumes)]
        # One after the other: the later images find the layers of the first.
        self._compose("--parallel=1", f"--podman-build-args={' '.join(options)}", "build")

    def up(self) -> None:
        """Start all containers; returns once the health check of each succeeds."""
        self._compose("up", "--detach", "--no-build")
        for service in SERVICES:
            wait_until(self._health_of(service))

    def down(self) -> None:
        """Stop and remove all of it, also what an earlier run may have left."""
        self._compose("down", "--volumes")

    def kill(self, service: str) -> None:
        """End a container without a warning."""
        self._podman("kill", "--signal", "KILL", container(service))

    def start(self, service: str) -> None:
        """Start a container that has ended; returns once its health check succeeds."""
        self._podman("start", container(service))
        wait_until(self._health_of(service))

    def begin_stop(self, service: str) -> subprocess.Popen[bytes]:
        """Ask a service to end as `docker compose stop` does, without waiting for it."""
        command = self._compose_command("stop", service)
        return subprocess.Popen(command, env=self._environment, cwd=ROOT, stdout=subprocess.DEVNULL)

    def execute(self, service: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a container."""
        whole = ["podman", "exec", container(service), *command]
        return subprocess.run(whole, env=self._environment, capture_output=True, text=True, timeout=60, check=False)

    def inspect(self, service: str, field: str) -> str:
        """A field of what podman knows of a container, such as State.ExitCode."""
        return self._podman("inspect", "--format", f"{{{{.{field}}}}}", container(service)).strip()

    def logs(self, *services: str) -> str:
        """What these services have written, by default all."""
        return "".join(
            subprocess.run(
                ["podman", "logs", container(service)],
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            ).stdout
            for service in services or SERVICES
        )

    def _health_of(self, service: str) -> Callable[[], bool]:
        """Whether the health check of compose.yaml succeeds: podman's own timers need systemd, so it is run by hand."""
        command = ["podman", "healthcheck", "run", container(service)]

        def is_healthy() -> bool:
            done = subprocess.run(command, env=self._environment, capture_output=True, timeout=60, check=False)
            return done.returncode == 0

        return is_healthy

    def _podman(self, *arguments: str) -> str:
        done = subprocess.run(
            ["podman", *arguments], env=self._environment, stdout=subprocess.PIPE, text=True, timeout=60, check=True
        )
        return done.stdout

    def _compose(self, *arguments: str) -> None:
        subprocess.run(self._compose_command(*arguments), env=self._environment, cwd=ROOT, check=True)

    @staticmethod
    def _compose_command(*arguments: str) -> list[str]:
        files = [f"--file={path}" for path in _FILES]
        return [_PODMAN_COMPOSE, *files, "--profile=http", f"--project-name={_PROJECT}", *arguments]


def container(service: str) -> str:
    """The name of a service's container."""
    return f"{_PROJECT}_{service}_1"


def _cpuset(cores: Collection[int]) -> str:
    return ",".join(str(core) for core in cores)
