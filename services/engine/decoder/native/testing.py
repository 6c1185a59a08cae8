"""What of `_native` tests alone reach: single operations, compared bit by bit, and the noise. No wheel holds this."""

from services.engine.decoder.native._native import (
    KvLayer,
    Operations,
    PackedWeight,
    gumbel,
    gumbel_noise,
    philox4x32,
)

__all__ = ["KvLayer", "Operations", "PackedWeight", "gumbel", "gumbel_noise", "philox4x32"]
