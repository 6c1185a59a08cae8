"""IgnoredFields: what clients of OpenAI's API may say and what changes no answer of ours."""

from typing import Any

from services.gateway.generation.request import Part


class IgnoredFields(Part):
    """Names of users, and what concerns the shop that OpenAI's models are sold in."""

    user: str | None = None
    store: bool | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None


class StreamOptions(Part):
    """What a stream tells beside the answer."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None  # none is needed: the sizes of our events are no secret that we keep
