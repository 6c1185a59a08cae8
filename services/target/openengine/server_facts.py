"""Server facts: the contract's messages about the server, its models and its load."""

import time
from typing import Any

from services.engine.range import MAX_COUNT
from services.service.limits import LIMITS
from services.target.message.syntax import NONE
from services.target.models.served_model import ServedModel
from services.target.models.serving import Serving
from services.target.models.target_model import TargetModel
from services.target.models.target_models import TargetModels
from services.target.openengine.contract import RELEASE, REVISION
from services.target.openengine.v1 import openengine_pb2

_ENGINE = "outrider"
_MODES = (
    openengine_pb2.GUIDED_DECODING_MODE_JSON_SCHEMA,
    openengine_pb2.GUIDED_DECODING_MODE_REGEX,
    openengine_pb2.GUIDED_DECODING_MODE_EBNF_GRAMMAR,
    openengine_pb2.GUIDED_DECODING_MODE_CHOICE,
    openengine_pb2.GUIDED_DECODING_MODE_JSON_OBJECT,
)


def write_server_info(models: TargetModels, version: str, instance_id: str) -> openengine_pb2.ServerInfo:
    """The server; its capacity is known while the first model is loaded."""
    info = openengine_pb2.ServerInfo(
        engine_name=_ENGINE,
        engine_version=version,
        engine_role=openengine_pb2.ENGINE_ROLE_AGGREGATED,
        instance_id=instance_id,
        supported_models=[model.name for model in models.all if model.name],
        parallelism=openengine_pb2.ParallelismInfo(
            tensor_parallel_size=len(models.first.config.devices),
            pipeline_parallel_size=1,
            data_parallel_size=1,
            data_parallel_rank=0,
            data_parallel_start_rank=0,
            decode_context_parallel_size=1,
        ),
        kv_connector=openengine_pb2.KvConnectorInfo(enabled=False),
        schema_revision=REVISION,
        minimum_client_revision=REVISION,
        schema_release=RELEASE,
    )
    if (serving := models.first.serving) is not None:
        facts = serving.engine.facts
        info.capacity.kv_block_size, info.capacity.total_kv_blocks = facts.block_size, facts.num_blocks
        info.capacity.max_running_requests = facts.config.max_sequences
        info.capacity.max_batched_tokens = facts.config.max_rows
        _extend(info.extra, fingerprint=str(serving.model.fingerprint), device=facts.device)
    return info


def write_model_info(model: ServedModel, setup: TargetModel, serving: Serving) -> openengine_pb2.ModelInfo:
    """A model by its name, without the path of its files."""
    tool_parser, reasoning_parser = ("" if name == NONE else name for name in model.syntax.names)
    facts = serving.engine.facts
    info = openengine_pb2.ModelInfo(
        model_id=model.name,
        served_model_name=model.name,
        max_context_length=model.context_length,
        max_output_tokens=model.context_length - 1,
        supports_text_input=True,
        supports_token_ids_input=True,
        generation=_write_capabilities(model, has_prefix_cache=facts.config.prefix_cache),
        supports_lora=setup.lora_dir is not None or bool(setup.loras),
        supports_multimodal=False,
        reasoning_parser=reasoning_parser,
        tool_call_parser=tool_parser,
    )
    _extend(
        info.extra,
        fingerprint=str(model.fingerprint),
        architecture=model.config.architecture,
        weights=facts.weights,
        kv=facts.config.kv,
        vocab_size=model.config.vocab_size,
        eos_token_ids=[*model.eos_token_ids],
        head=model.head,
    )
    return info


def write_load(serving: Serving, instance_id: str, *, by_rank: bool) -> openengine_pb2.LoadInfo:
    """The load of a model's engine."""
    load, engine = serving.load, serving.engine
    rank = openengine_pb2.RankLoadInfo(
        data_parallel_rank=0,
        running_requests=load.running,
        queued_requests=load.waiting,
        used_kv_blocks=engine.load.used_blocks,
        total_kv_blocks=engine.facts.num_blocks,
    )
    info = openengine_pb2.LoadInfo(
        instance_id=instance_id,
        timestamp_unix_nanos=time.time_ns(),
        running_requests=rank.running_requests,
        queued_requests=rank.queued_requests,
        active_kv_sessions=0,
        used_kv_blocks=rank.used_kv_blocks,
        total_kv_blocks=rank.total_kv_blocks,
        waiting_tokens=min(serving.admissions.waiting_tokens.total, MAX_COUNT),
        ranks=[rank] if by_rank else (),
    )
    rates = {"tokens_per_second": load.token_rate(), "requests_per_second": load.request_rate()}
    _extend(info.attributes, **rates, utilization=load.utilization, cache_hit_rate=load.cache_hit_rate)
    return info


def _write_capabilities(model: ServedModel, *, has_prefix_cache: bool) -> openengine_pb2.GenerationCapabilities:
    logprobs = openengine_pb2.LogprobCapabilities(
        supported=True,
        candidate_selection_modes=[openengine_pb2.CANDIDATE_TOKEN_SELECTION_MODE_TOP_N],
        max_top_n=LIMITS.max_top_candidates,
    )
    return openengine_pb2.GenerationCapabilities(
        prompt_logprobs=logprobs,
        output_logprobs=logprobs,
        guided_decoding=openengine_pb2.GuidedDecodingCapabilities(supported=True, modes=_MODES),
        max_num_sequences=model.max_samples,
        supports_priority=True,
        supports_stop_in_output=True,
        supports_cache_salt=has_prefix_cache,
        supports_prefix_cache_bypass=has_prefix_cache,
    )


def _extend(struct: Any, **values: object) -> None:  # noqa: ANN401 - a Struct, whose stubs differ by version
    struct.update(values)
