"""The compiled kernels, decoder and sampler: the only place that imports `_native`."""

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
        Logits,
        NoiseIds,
        Pass,
        ReadProbe,
        Sampler,
        Samples,
        SamplingState,
        block_types,
        cuda_devices,
        cuda_problem,
        derive_seed,
        isas,
    )
except ModuleNotFoundError as error:
    raise ImportError("the compiled module `_native` is missing: build it with `make build`") from error

__all__ = [
    "BLOCK_SIZE",
    "BUILD_ID",
    "NOISE_VERSION",
    "Batch",
    "Decoder",
    "DecoderConfig",
    "Device",
    "DeviceError",
    "Logits",
    "NoiseIds",
    "Pass",
    "ReadProbe",
    "Sampler",
    "Samples",
    "SamplingState",
    "block_types",
    "cuda_devices",
    "cuda_problem",
    "derive_seed",
    "isas",
]
