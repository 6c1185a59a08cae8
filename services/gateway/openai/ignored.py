"""IgnoredFields: fields of OpenAI's API that are accepted without effect."""

from typing import Any

from services.gateway.generation.request import Part


class IgnoredFields(Part):
    """Names of users, and options of OpenAI's own service; they have no effect."""

    user: str | None = None
    store: bool | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None


class StreamOptions(Part):
    """Options of a stream beside the answer."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None  # no effect: the sizes of events are not hidden
