"""Server facts: the contract's messages about the model, the server and its load."""

import json
from datetime import UTC, datetime

from smg_grpc_proto.generated import vllm_engine_pb2

from services.engine.range import MAX_COUNT
from services.target.models.served_model import ServedModel
from services.target.models.serving import Serving

_SERVER_TYPE = "vllm-grpc"  # the contract's name, by which routers distinguish servers
_GRAMMARS_BEGIN = "first_token"


def write_model_info(model: ServedModel) -> vllm_engine_pb2.GetModelInfoResponse:
    """The description of the model, by its name, without the path of its files."""
    return vllm_engine_pb2.GetModelInfoResponse(
        model_path=model.name,
        is_generation=True,
        max_context_length=model.context_length,
        vocab_size=model.config.vocab_size,
        served_model_name=model.name,
        model_type=model.config.architecture,
        architectures=[model.config.architecture],
        eos_token_ids=model.eos_token_ids,
        pad_token_id=_special_id(model, "pad_token"),
        bos_token_id=_special_id(model, "bos_token"),
        max_req_input_len=model.context_length - 1,
        default_sampling_params_json=json.dumps(dict(model.defaults)) if model.defaults else "",
    )


def write_server_info(serving: Serving, *, uptime: float, heard_at: float) -> vllm_engine_pb2.GetServerInfoResponse:
    """The server's configuration; `uptime` is in seconds, `heard_at` in seconds since 1970."""
    facts = serving.engine.facts
    return vllm_engine_pb2.GetServerInfoResponse(
        active_requests=serving.load.running + serving.load.waiting,
        uptime_seconds=uptime,
        last_receive_timestamp=heard_at,
        server_type=_SERVER_TYPE,
        data_parallel_size=1,
        kv_cache_dtype=facts.config.kv,
        block_size=facts.block_size,
        model_dtype=facts.weights,
        max_num_seqs=facts.config.max_sequences,
        constrained_decoding_start=_GRAMMARS_BEGIN,
    )


def write_loads(serving: Serving, version: str) -> vllm_engine_pb2.GetLoadsResponse:
    """The load of the server."""
    load, facts = serving.load, serving.engine.facts
    capacity = facts.num_blocks * facts.block_size
    running, waiting = load.running, load.waiting
    scheduler = vllm_engine_pb2.SchedulerLoad(
        num_running_reqs=running,
        num_waiting_reqs=waiting,
        num_total_reqs=running + waiting,
        num_used_tokens=min(round(load.cache_usage * capacity), MAX_COUNT),
        max_total_num_tokens=min(capacity, MAX_COUNT),
        token_usage=load.cache_usage,
        gen_throughput=load.token_rate(),
        cache_hit_rate=load.cache_hit_rate,
        utilization=load.utilization,
        max_running_requests=facts.config.max_sequences,
        num_waiting_uncached_tokens=min(serving.admissions.waiting_tokens.total, MAX_COUNT),
    )
    now = datetime.now(UTC).isoformat()
    return vllm_engine_pb2.GetLoadsResponse(timestamp=now, version=version, dp_rank_count=1, loads=[scheduler])


def _special_id(model: ServedModel, name: str) -> int:
    """The id of a special token, or 0 if the checkpoint names none that is a single token."""
    text = model.chat_template.special_tokens.get(name, "")
    ids = model.tokenizer.encode(text, add_special_tokens=False) if text else []
    return ids[0] if len(ids) == 1 else 0
