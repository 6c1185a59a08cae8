"""A gateway in front of the demo target, which gets the chat template of a published family."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.harness.models import DEMO_TARGET
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.models.checkpoints import copy_of
from tests.harness.servers.server import target_server
from tests.unit.target.prompt.template_conversations import template_of

FAMILIES = ("qwen3", "mistral-small-3.2", "llama-3", "glm-4.6", "qwen3-coder", "gpt-oss", "gemma-4")
"""Families that differ in how they write calls, and in what they refuse."""
MODEL = "agent"


@contextmanager
def family_gateway(family: str, folder: Path) -> Iterator[RunningGateway]:
    """The gateway, while the context lasts; the copy of the model lies in the folder."""
    copy = copy_of(DEMO_TARGET, folder, MODEL, chat_template=template_of(family))
    parsers = {"reasoning_parser": {"gpt-oss": "harmony", "gemma-4": "gemma4"}.get(family, "think")}
    with target_server(copy, parsers=parsers, kv_blocks=256) as target:
        with RunningGateway(target.address) as running:
            yield running
        target.assert_all_free()
