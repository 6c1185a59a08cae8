"""The compiled kernels and decoder: the only place that imports `_native`."""

try:
    from services.engine.decoder.native._native import (
        BLOCK_SIZE,
        BUILD_ID,
        NOISE_VERSION,
        Batch,
        Decoder,
        DecoderConfig,
        Device,
        DeviceError,
        KvLayer,
        Logits,
        NoiseIds,
        Operations,
        PackedWeight,
        ReadProbe,
        Sampler,
        Samples,
        SamplingState,
        cuda_devices,
        cuda_problem,
        derive_seed,
        gumbel,
        gumbel_noise,
        isas,
        kv_bytes,
        philox4x32,
    )
except ModuleNotFoundError as error:
    raise ImportError(
        "the compiled module `_native` is missing: build it with `make build`, or with `pip install -e .`"
    ) from error

__all__ = [
    "BLOCK_SIZE",
    "BUILD_ID",
    "NOISE_VERSION",
    "Batch",
    "Decoder",
    "DecoderConfig",
    "Device",
    "DeviceError",
    "KvLayer",
    "Logits",
    "NoiseIds",
    "Operations",
    "PackedWeight",
    "ReadProbe",
    "Sampler",
    "Samples",
    "SamplingState",
    "cuda_devices",
    "cuda_problem",
    "derive_seed",
    "gumbel",
    "gumbel_noise",
    "isas",
    "kv_bytes",
    "philox4x32",
]
