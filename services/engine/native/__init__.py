"""The compiled kernels and decoder: the only place that imports `_native`."""

try:
    from services.engine.native._native import (
        BLOCK_SIZE,
        BUILD_ID,
        NOISE_VERSION,
        Batch,
        Decoder,
        DecoderConfig,
        Device,
        Logits,
        Sampler,
        Samples,
        SamplingState,
        derive_seed,
        gumbel,
        gumbel_noise,
        isas,
        ops,
        philox4x32,
    )
except ModuleNotFoundError as error:
    raise ImportError(
        "The compiled module services.engine.native._native is missing: build it with `make build` or `pip install -e .`"
    ) from error

__all__ = [
    "BLOCK_SIZE",
    "BUILD_ID",
    "NOISE_VERSION",
    "Batch",
    "Decoder",
    "DecoderConfig",
    "Device",
    "Logits",
    "Sampler",
    "Samples",
    "SamplingState",
    "derive_seed",
    "gumbel",
    "gumbel_noise",
    "isas",
    "ops",
    "philox4x32",
]
