"""clear_text: where a service may speak without TLS."""

import logging

from outrider.servers.channel import is_local
from services.engine.config import ConfigError

logger = logging.getLogger(__name__)


def check_clear_text(setting: str, address: str, remedy: str, *, is_allowed: bool) -> None:
    """Check an address that is used without TLS: unless it is of this machine only, it must be allowed.

    Raises ConfigError, which says `remedy`, or else leaves a warning in the log.
    """
    if is_local(address):
        return
    if not is_allowed:
        raise ConfigError(
            f"{setting} is {address}, where others may read and change what is said in clear text; {remedy}, or say "
            "--insecure where nobody else is on that network, or something else encrypts it"
        )
    logger.warning("%s %s speaks in clear text: whoever is on that network may read and change it", setting, address)
