"""ServiceProcess: how a service is started."""

import os
import sys
from pathlib import Path

import pytest

from services.cli.service_process import ServiceFailedError, ServiceProcess

pytestmark = pytest.mark.process


def test_services_do_not_import_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter, log = tmp_path / "python", tmp_path / "log"
    interpreter.write_text('#!/bin/sh\necho "$@" >&2\nexit 3\n')
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    with (
        log.open("w") as file,
        ServiceProcess("target", ["--model", "x"], cores=os.sched_getaffinity(0), log=file) as process,
        pytest.raises(ServiceFailedError, match="ended with code 3"),
    ):
        process.wait_until_serving()
    assert log.read_text() == "-P -m services.cli.bound_service target --model x\n"
