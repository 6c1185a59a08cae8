"""LoraAdapter: a change of a model's weights that requests may ask for."""

from typing import NamedTuple


class LoraAdapter(NamedTuple):
    """Its name, and what the bytes of answers by it depend on beside the request."""

    name: str
    fingerprint: str
