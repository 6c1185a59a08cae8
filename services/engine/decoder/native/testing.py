"""What of the compiled code tests alone reach. No wheel holds this."""

try:
    from services.engine.decoder.native._native_testing import (
        KvLayer,
        Operations,
        PackedWeight,
        gumbel,
        gumbel_noise,
        make_logits,
        philox4x32,
        poison,
    )
except ModuleNotFoundError as error:
    raise ImportError("the compiled module `_native_testing` is missing: build it with `make build`") from error

__all__ = [
    "KvLayer",
    "Operations",
    "PackedWeight",
    "gumbel",
    "gumbel_noise",
    "make_logits",
    "philox4x32",
    "poison",
]
