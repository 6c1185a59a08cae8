"""The quantisation methods that can be read, by the `quant_method` of quantization_config."""

from services.engine.checkpoint.quantised.awq import Awq
from services.engine.checkpoint.quantised.compressed_tensors import CompressedTensors
from services.engine.checkpoint.quantised.float8 import Float8
from services.engine.checkpoint.quantised.gptq import Gptq
from services.engine.checkpoint.quantised.mxfp4 import Mxfp4
from services.engine.files.json_fields import JsonFields

Method = Gptq | Awq | CompressedTensors | Float8 | Mxfp4

METHODS: dict[str, type[Method]] = {
    "awq": Awq,
    "compressed-tensors": CompressedTensors,
    "fbgemm_fp8": Float8,
    "fp8": Float8,
    "gptq": Gptq,
    "modelopt": Float8,
    "mxfp4": Mxfp4,
}


def read_method(config: JsonFields) -> Method | None:
    """Read the quantisation method of the matrices, None if config.json has none.

    Raises CheckpointError for an unknown method or layout.
    """
    inner = config.nested("text_config") or config
    settings = next(
        (
            settings
            for fields in (config, inner)
            for field in ("quantization_config", "compression_config")
            if (settings := fields.nested(field)) is not None
        ),
        None,
    )
    return METHODS[settings.choice("quant_method", METHODS)].read(settings) if settings is not None else None
