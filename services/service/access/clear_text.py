"""clear_text: the addresses that a service may use without TLS."""

import logging

from outrider.servers.channel import is_local
from services.engine.config import ConfigError

logger = logging.getLogger(__name__)


def check_clear_text(setting: str, address: str, remedy: str, *, is_allowed: bool) -> None:
    """Check an address without TLS that is not local: raises ConfigError with the `remedy`, or warns if allowed."""
    if is_local(address):
        return
    if not is_allowed:
        raise ConfigError(
            f"{setting} is {address}, where others may read and change unencrypted traffic; {remedy}, or say "
            "--insecure if the network is private or encrypted by other means"
        )
    logger.warning("%s %s uses clear text: others on that network may read and change the traffic", setting, address)
