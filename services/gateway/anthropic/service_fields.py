"""ServiceFields: fields of Anthropic's API about its own service."""

from typing import Any

from services.gateway.generation.handling import PassedOver, Refused
from services.gateway.generation.part import Part


class ServiceFields(Part):
    """Options of Anthropic's own service: most have no effect, and some would need that service."""

    metadata: PassedOver[dict[str, Any]] = None
    service_tier: PassedOver[str] = None
    inference_geo: PassedOver[str] = None
    speed: PassedOver[str] = None
    betas: PassedOver[list[str]] = None
    cache_control: PassedOver[dict[str, Any]] = None
    context_management: PassedOver[dict[str, Any]] = None
    mcp_servers: Refused = None
    container: Refused = None
