"""schemathesis over the OpenAPI document: nothing makes the gateway fail, and every answer fits the document."""

import re

from tests.gateway.harness.running_gateway import RunningGateway
from tests.outsiders.conftest import Run, found
from tests.outsiders.tools import SCRIPTS

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)


def test_the_document_is_true(gateway: RunningGateway, run: Run):
    said = run(
        [
            str(found("schemathesis") / "schemathesis"),
            "run",
            f"{gateway.url}/openapi.json",
            f"--checks={','.join(CHECKS)}",
            "--phases=coverage,fuzzing",
            "--max-examples=25",
            "--max-time=45",
            "--generation-deterministic",
            "--continue-on-failure",
            "--no-color",
        ],
        SCHEMATHESIS_HOOKS="schemathesis_hooks",
        PYTHONPATH=str(SCRIPTS),
    )
    assert int(re.findall(r"(\d+) generated", said)[0]) > 100
    assert "failure" not in said.splitlines()[-1]
