"""IgnoredFields: fields of OpenAI's API and its extensions that are accepted without effect."""

from typing import Any

from services.gateway.generation.handling import PassedOver
from services.gateway.generation.part import Part


class IgnoredFields(Part):
    """Names of users, options of OpenAI's own service, and those of LM Studio for its models; they have no effect."""

    user: PassedOver[str] = None
    store: PassedOver[bool] = None
    metadata: PassedOver[dict[str, Any]] = None
    service_tier: PassedOver[str] = None
    safety_identifier: PassedOver[str] = None
    prompt_cache_key: PassedOver[str] = None
    prompt_cache_retention: PassedOver[str] = None
    ttl: PassedOver[float] = None
    draft_model: PassedOver[str] = None
