"""ModelInfo: what may be asked of a model, and which models there are, as messages."""

from dataclasses import asdict

from outrider.v1 import generation_pb2
from services.service.limits import LIMITS
from services.target.models.served_model import ServedModel
from services.target.models.target_models import TargetModels


def write_model_info(model: ServedModel) -> generation_pb2.GetModelInfoResponse:
    """A model and what may be asked of it."""
    parts = model.fingerprint
    return generation_pb2.GetModelInfoResponse(
        name=model.name,
        architecture=model.config.architecture,
        context_length=model.context_length,
        vocab_size=model.config.vocab_size,
        eos_token_ids=model.eos_token_ids,
        fingerprint=parts.digest,
        fingerprint_parts=generation_pb2.FingerprintParts(
            build=f"{parts.version}+{parts.build}",
            device=parts.device,
            weights_hash=parts.weights_hash,
            weight_format=parts.weight_format,
            kv_type=parts.kv_type,
            noise_version=parts.noise_version,
        ),
        limits=generation_pb2.Limits(**asdict(LIMITS)),
        has_chat_template=model.chat_template.exists,
        loras=[
            generation_pb2.LoraAdapter(name=name, fingerprint=fingerprint.digest)
            for name, fingerprint in model.adapted.items()
        ],
    )


def write_models(models: TargetModels) -> generation_pb2.ListModelsResponse:
    """All models, and what may be asked of those that are loaded."""
    response = generation_pb2.ListModelsResponse()
    for model in models.all:
        told = response.models.add(name=model.name, state=generation_pb2.MODEL_STATE_LOADING)
        if model.serving is not None:
            told.state = generation_pb2.MODEL_STATE_READY
            told.info.CopyFrom(write_model_info(model.serving.model))
    return response
