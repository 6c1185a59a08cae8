"""The compiled code that only tests use; it is not part of the wheels."""

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
        poison_states,
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
    "poison_states",
]
