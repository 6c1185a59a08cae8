"""Where clear text may go without being allowed: nowhere but on this machine."""

import logging

import pytest

from services.draft.server import DraftServer
from services.engine.config import ConfigError, EngineConfig, resolve_isa
from services.service.access.clear_text import check_clear_text
from services.service.server_config import ServerConfig

HERE = ["127.0.0.1:1", "localhost:0", "[::1]:1", "127.9.9.9:1", "unix:/run/x", "unix-abstract:x", "dns:///localhost:1"]
ELSEWHERE = ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "draft:50052", "localhost.example.org:1", "dns:///draft:1", "*:1"]


@pytest.mark.parametrize("address", HERE)
def test_clear_text_is_allowed_on_this_machine(address: str, caplog: pytest.LogCaptureFixture) -> None:
    check_clear_text("listen", address, "give a certificate", is_allowed=False)
    assert not caplog.records


@pytest.mark.parametrize("address", ELSEWHERE)
def test_clear_text_elsewhere_is_refused_or_warned_of(address: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match="give a certificate, or say --insecure"):
        check_clear_text("listen", address, "give a certificate", is_allowed=False)
    assert not caplog.records
    check_clear_text("listen", address, "give a certificate", is_allowed=True)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert address in caplog.text


async def test_a_draft_that_others_reach_must_know_its_targets() -> None:
    """With TLS alone, any client could have it predict, and read the predictions."""
    config = EngineConfig(model="x/y", isa=resolve_isa(), threads=1)  # type: ignore[arg-type]
    for allowed in ({"insecure": True}, {"listen": "127.0.0.1:0"}):
        DraftServer(config, ServerConfig(**{"listen": "0.0.0.0:0", **allowed}))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="give --tls-client-ca or --tokens-file so that targets are known"):
        DraftServer(config, ServerConfig(listen="0.0.0.0:0"))
