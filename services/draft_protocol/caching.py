"""Caching: reads a request's cache policy from its message, and writes it for the draft."""

from outrider.v1 import common_pb2
from services.engine.request import CachePolicy
from services.service.validation import Violations

_MAX_SALT_BYTES = 128


def check_cache(message: common_pb2.CachePolicy, found: Violations) -> None:
    """Add what is wrong with a client's policy to `found`."""
    check_salt("cache.salt", message.salt, found)


def check_salt(field: str, salt: str, found: Violations) -> None:
    """Add what is wrong with a salt to `found`."""
    if (size := len(salt.encode())) > _MAX_SALT_BYTES:
        found.add(field, f"has {size} bytes", f"at most {_MAX_SALT_BYTES} bytes")


def read_cache(message: common_pb2.CachePolicy) -> CachePolicy:
    """The cache policy that a client, or a target, sent."""
    return CachePolicy(prefix=message.prefix or not message.HasField("prefix"), salt=message.salt)


def write_cache(policy: CachePolicy) -> common_pb2.CachePolicy:
    """The message that a target sends to its draft."""
    return common_pb2.CachePolicy(prefix=policy.prefix, salt=policy.salt)
