"""ModelInfo: the description of a model and the list of models, as messages."""

from dataclasses import asdict

from outrider.v1 import generation_pb2
from services.service.limits import LIMITS
from services.target.models.served_model import ModelDescription
from services.target.models.target_model import TargetModel
from services.target.models.target_models import TargetModels


async def write_model_info(model: TargetModel, description: ModelDescription) -> generation_pb2.GetModelInfoResponse:
    """The description of a model, its limits, and what predicts for it."""
    parts = description.fingerprint
    return generation_pb2.GetModelInfoResponse(
        name=description.name,
        architecture=description.architecture,
        context_length=description.context_length,
        vocab_size=description.vocab_size,
        eos_token_ids=description.eos_token_ids,
        fingerprint=parts.digest,
        fingerprint_parts=generation_pb2.FingerprintParts(
            build=f"{parts.version}+{parts.build}",
            device=parts.device,
            weights_hash=parts.weights_hash,
            weight_format=parts.weight_format,
            kv_type=parts.kv_type,
            noise_version=parts.noise_version,
            tokenizer_hash=parts.tokenizer,
            chat_hash=parts.chat,
        ),
        limits=generation_pb2.Limits(**asdict(LIMITS)),
        has_chat_template=description.has_chat_template,
        has_infill=description.has_infill,
        has_draft=await model.has_draft(),
        head=description.head,
        loras=[
            generation_pb2.LoraAdapter(name=name, fingerprint=fingerprint.digest)
            for name, fingerprint in description.adapted.items()
        ],
    )


async def write_models(models: TargetModels) -> generation_pb2.ListModelsResponse:
    """All models, with the descriptions of those that are loaded, or were."""
    return generation_pb2.ListModelsResponse(models=[await _write_model(model, models) for model in models.all])


async def _write_model(model: TargetModel, models: TargetModels) -> generation_pb2.ServedModel:
    message = generation_pb2.ServedModel(name=model.name, state=_state(model, models), loaded_share=model.loaded_share)
    if (description := model.description) is not None:
        message.info.CopyFrom(await write_model_info(model, description))
    return message


def _state(model: TargetModel, models: TargetModels) -> generation_pb2.ModelState.ValueType:
    if model.serving is not None:
        return generation_pb2.MODEL_STATE_READY
    is_unloaded = models.residency.is_open and not models.residency.is_loading(model)
    return generation_pb2.MODEL_STATE_UNLOADED if is_unloaded else generation_pb2.MODEL_STATE_LOADING
