"""The target command: its options, and its process."""

import argparse
import os
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from services.engine.config import OFF, PROMPT_SLOWDOWN, ConfigError, EngineConfig, check_range
from services.engine.hub.hub_name import SOURCES, read_source
from services.service.access.credential_files import CredentialFiles
from services.service.named_option import NamedOption, is_name
from services.service.options import OptionGroups, engine_config, gibibytes, server_config, telemetry_config
from services.service.options import add_options as add_service_options
from services.service.service_process import run_service
from services.target.engines.model_setup import ModelSetup
from services.target.kv_events.zmq_config import ZmqConfig
from services.target.message.syntax import AUTO, NONE, REASONING_SYNTAXES, TOOL_SYNTAXES
from services.target.models.residency_config import ResidencyConfig
from services.target.server import TargetServer

_CORES_EACH, _MOST_FRONTS_UNASKED, _MOST_FRONTS = 4, 8, 64

_DRAFT_FILES = {
    "tls-ca": "link to drafts over TLS, and trust the certificates of these authorities, PEM",
    "tls-cert": "certificate chain that is sent to drafts, PEM",
    "tls-key": "its private key, PEM",
    "token-file": "file with the token that is sent to drafts",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the target command."""
    parser.usage = "%(prog)s --model MODEL [--draft HOST:PORT] [option …]"
    groups = OptionGroups(parser)
    _add_first(groups.first)
    add_service_options(groups)
    _add_model(groups.model)
    _add_offload(groups.device)
    _add_speculation(groups.speculation)
    blocks = (
        "blocks of the KV cache that sessions may pin, which are then unavailable to other requests (default: a "
        "quarter of all, if the longest context fits beside them)"
    )
    groups.limits.add_argument("--session-blocks", type=int, metavar="N", help=blocks)
    slowdown = (
        "how many times as long a token may take while prompts are computed, unless there are more of these than "
        "sequences that decode; inf: prompts may take all of --max-rows (default: %(default)s)"
    )
    fronts = (
        "processes that have the connections of clients, beside the one in which a model computes; 1: the service "
        "itself; 0: one process does everything (default: 1 for each four cores, from 1 to 8)"
    )
    groups.device.add_argument("--fronts", type=int, metavar="N", help=fronts)
    groups.rare.add_argument("--prompt-slowdown", type=float, default=PROMPT_SLOWDOWN, metavar="FACTOR", help=slowdown)


def _add_first(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--model",
        dest="models",
        action="append",
        type=NamedOption.parse,
        required=True,
        metavar="[NAME=]MODEL",
        help=f"{SOURCES}; several may be given, each with a name: requests name the one they want, or get the first",
    )
    group.add_argument(
        "--draft",
        action="append",
        type=NamedOption.parse,
        default=[],
        metavar="[NAME=]HOST:PORT",
        help="a draft service, for all models or for the one of that name; several may be given: each sequence goes to "
        "the least loaded one, and to another if that fails",
    )


def _add_model(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--head",
        dest="heads",
        action="append",
        type=NamedOption.parse,
        default=[],
        metavar="[NAME=]HEAD",
        help="predict from what the model's own passes compute, on the same device, with this head that was trained "
        f"for the model (a folder, or a name on the hub); {AUTO}: with the model's own layer for multi-token "
        f"prediction, if it has one; {OFF}: without either (default: {AUTO})",
    )
    group.add_argument("--name", help="the model's name for clients (default: the folder's, or the hub's)")
    group.add_argument(
        "--memory-budget",
        type=gibibytes,
        metavar="GIB",
        help="memory for the weights and KV caches of all loaded models, in GiB: idle models are unloaded when others "
        "are requested (default: all are loaded, and stay)",
    )
    group.add_argument(
        "--load-on-demand",
        action="store_true",
        help="load only the first model at the start, and each of the others when a request asks for it",
    )
    group.add_argument(
        "--unload-after",
        type=float,
        metavar="SECONDS",
        help="unload a model that has had no request for so long; a request loads it again (default: never)",
    )
    _add_loras(group)
    _add_parser(group, "tool", TOOL_SYNTAXES)
    _add_parser(group, "reasoning", REASONING_SYNTAXES)
    _add_contract(group)


def _add_loras(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--lora",
        dest="loras",
        action="append",
        type=LoraOption.parse,
        default=[],
        metavar="[MODEL:]NAME=DIR",
        help="a LoRA adapter of the first model or of MODEL, in PEFT's format; several may be given: requests name the "
        "one they want",
    )
    group.add_argument(
        "--lora-dir",
        type=Path,
        metavar="DIR",
        help="where `outrider admin load-lora` finds adapters (default: nowhere)",
    )


def _add_speculation(group: "argparse._ArgumentGroup") -> None:
    for name, description in _DRAFT_FILES.items():
        group.add_argument(f"--draft-{name}", type=Path, metavar="FILE", help=description)
    group.add_argument(
        "--run-ahead",
        type=int,
        metavar="TOKENS",
        help="how many tokens the draft predicts beyond those that a pass verifies (default: 8, or 0 if it shares the "
        "cores or the GPU with the target)",
    )
    group.add_argument(
        "--alternates",
        type=int,
        default=3,
        metavar="N",
        help="for how many of its next predictions a draft that runs ahead also predicts the text in case they are "
        "wrong (default: %(default)s)",
    )
    group.add_argument(
        "--lookup",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="prompt lookup: predict that a text continues as it did after the same tokens before (default: on)",
    )


def _add_offload(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--kv-offload-memory",
        type=gibibytes,
        metavar="GIB",
        help="host memory, in GiB, for prefixes that the KV cache has evicted (default: none)",
    )
    group.add_argument(
        "--kv-offload-dir",
        type=Path,
        metavar="DIR",
        help="folder for these prefixes instead, where the next start finds them; it reveals prompts (default: none)",
    )
    group.add_argument("--kv-offload-disk", type=gibibytes, metavar="GIB", help="disk space for these prefixes, in GiB")
    group.add_argument(
        "--kv-events",
        action="store_true",
        help="let routers with the scope kv-events follow by vLLM's contract or OpenEngine what the prefix cache of "
        "the first model holds, with the tokens of prompts",
    )
    group.add_argument(
        "--kv-events-zmq",
        metavar="ADDRESS",
        help="send them by ZMQ, too, as vLLM does: listen at tcp://*:PORT or ipc://PATH, or connect to tcp://HOST:PORT",
    )
    group.add_argument(
        "--kv-events-replay", metavar="ADDRESS", help="where subscribers by ZMQ get batches that they have missed"
    )
    group.add_argument("--kv-events-topic", metavar="TOPIC", help="their topic by ZMQ (default: kv@HOST@MODEL)")


def _add_parser(group: "argparse._ArgumentGroup", kind: str, syntaxes: Iterable[str]) -> None:
    group.add_argument(
        f"--{kind}-parser",
        choices=[AUTO, NONE, *syntaxes],
        default=AUTO,
        help=f"how the model marks its {kind} parts (default: %(default)s, as its chat template shows)",
    )


def _add_contract(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--vllm-contract",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="serve vLLM's gRPC contract too, for routers that speak it (default: where outrider[vllm] is installed)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""

    def make() -> TargetServer:
        server, telemetry = server_config(arguments), telemetry_config(arguments)
        return TargetServer(
            model_setups(arguments),
            server,
            residency=_residency(arguments),
            vllm_contract=arguments.vllm_contract,
            telemetry=telemetry,
            fronts=num_fronts(arguments),
            zmq=_zmq_config(arguments),
        )

    return run_service("target", make, log_format=arguments.log_format)


def num_fronts(arguments: argparse.Namespace) -> int:
    """The number of fronts; raises ConfigError for one that is not possible."""
    is_path, chosen = arguments.listen.startswith("unix:"), arguments.fronts
    if chosen is None:
        most = 1 if is_path else _MOST_FRONTS_UNASKED
        return max(1, min(most, len(os.sched_getaffinity(0)) // _CORES_EACH))
    check_range("fronts", chosen, 0, _MOST_FRONTS)
    if chosen > 1 and is_path:
        raise ConfigError(f"fronts is {chosen}; it must be 0 or 1 where listen is unix:PATH")
    return int(chosen)


def _zmq_config(arguments: argparse.Namespace) -> ZmqConfig | None:
    endpoint, replay, topic = arguments.kv_events_zmq, arguments.kv_events_replay, arguments.kv_events_topic
    if endpoint is not None:
        return ZmqConfig(endpoint=endpoint, replay=replay, topic=topic)
    if (replay, topic) != (None, None):
        raise ConfigError("kv_events_replay and kv_events_topic must not be set without kv_events_zmq")
    return None


def _residency(arguments: argparse.Namespace) -> ResidencyConfig:
    return ResidencyConfig(
        memory_budget=arguments.memory_budget,
        load_on_demand=arguments.load_on_demand,
        unload_after=arguments.unload_after,
    )


def model_setups(arguments: argparse.Namespace) -> list[ModelSetup]:
    """The setup of each model; raises ConfigError for names that do not fit together."""
    models: list[NamedOption] = arguments.models
    if arguments.name is not None:
        if len(models) > 1 or models[0].name:
            raise ConfigError(f"name is {arguments.name!r}; it must not be set where --model has a name")
        models = [NamedOption(arguments.name, models[0].value)]
    names = {"", *(model.name for model in models)}
    if strange := next((draft.name for draft in arguments.draft if draft.name not in names), None):
        raise ConfigError(f"draft is for {strange!r}; it must be for one of the models, {', '.join(sorted(names)[1:])}")
    if strange := next((head.name for head in arguments.heads if head.name not in names), None):
        raise ConfigError(f"head is for {strange!r}; it must be for one of the models, {', '.join(sorted(names)[1:])}")
    if len(models) > 1 and any(not head.name and head.value not in (AUTO, OFF) for head in arguments.heads):
        raise ConfigError("head must be NAME=HEAD where several models are served: it was trained for one of them")
    if len({head.name for head in arguments.heads}) < len(arguments.heads):
        raise ConfigError("head must be given at most once for each model")
    if arguments.kv_offload_dir is not None and len(models) > 1:
        raise ConfigError("kv_offload_dir must not be set where several models are served")
    loras = loras_by_model(arguments.loras, [model.name for model in models])
    setups = [_setup(arguments, model, loras[model.name]) for model in models]
    return [setups[0], *(replace(each, engine=replace(each.engine, kv_events=False)) for each in setups[1:])]


def _setup(arguments: argparse.Namespace, model: NamedOption, loras: dict[str, Path]) -> ModelSetup:
    engine = engine_config(arguments, read_source(model.value))
    return ModelSetup(
        engine=_with_head(engine, arguments.heads, model.name),
        name=model.name,
        loras=loras,
        lora_dir=arguments.lora_dir,
        drafts=[draft.value for draft in arguments.draft if draft.name in ("", model.name)],
        draft_credentials=CredentialFiles(
            authorities=arguments.draft_tls_ca,
            certificate=arguments.draft_tls_cert,
            key=arguments.draft_tls_key,
            token=arguments.draft_token_file,
        ),
        run_ahead=arguments.run_ahead,
        num_alternates=arguments.alternates,
        lookup=arguments.lookup,
        tool_parser=arguments.tool_parser,
        reasoning_parser=arguments.reasoning_parser,
        own_process=num_fronts(arguments) > 0,
    )


def _with_head(engine: EngineConfig, heads: Seq[NamedOption], model: str) -> EngineConfig:
    by_name = {head.name: head.value for head in heads}
    head = by_name.get(model, by_name.get("", AUTO))
    is_word = head in (AUTO, OFF)
    return replace(engine, uses_mtp=head == AUTO, head=None if is_word else read_source(head))


class LoraOption(NamedTuple):
    """`[MODEL:]NAME=DIR`; without a model's name it is for the first one."""

    model: str
    name: str
    folder: Path

    @classmethod
    def parse(cls, text: str) -> "LoraOption":
        """Parse an option's value; the name is empty if there is none."""
        model, colon, rest = text.partition(":")
        if not colon or not is_name(model):
            model, rest = "", text
        name, folder = NamedOption.parse(rest)
        return cls(model, name, Path(folder))


def loras_by_model(options: Seq[LoraOption], models: Seq[str]) -> Mapping[str, dict[str, Path]]:
    """The folders of each model's adapters, by their names; raises ConfigError for names that do not fit together."""
    loras: dict[str, dict[str, Path]] = {model: {} for model in models}
    for option in options:
        if not option.name:
            raise ConfigError(
                f"lora is {str(option.folder)!r}; it must be [MODEL:]NAME=DIR, in NAME letters, digits, . _ -"
            )
        if (model := option.model or models[0]) not in loras:
            raise ConfigError(f"lora {option.name!r} is for {model!r}; it must be for one of {', '.join(models)}")
        if any(option.name in each for each in loras.values()):
            raise ConfigError(f"lora is {option.name!r} more than once; each must have a name of its own")
        loras[model][option.name] = option.folder
    return loras
