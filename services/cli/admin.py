"""outrider admin: inspects a running service, and changes its state."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable

import grpc

from outrider.errors import as_error
from outrider.v1 import admin_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceStub
from services.cli.calls.ending import exit_code
from services.cli.connection import add_token_option, open_local_channel, read_token
from services.cli.terminal import Terminal
from services.service.life.log_level import LEVELS
from services.service.printable import printable

_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.2
_LIMITS: dict[str, type] = {
    "max_queue": int,
    "max_waiting_tokens": int,
    "max_text_calls": int,
    "max_streams_per_caller": int,
    "reader_timeout": float,
}
_Command = Callable[[AdminServiceStub, argparse.Namespace, Terminal], int]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all subcommands; each has the options of the connection."""
    commands = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add(commands, "status", _status, "print the service's state: sequences, KV blocks, drafts, limits")
    drain = _add(commands, "drain", _drain, "refuse new requests; running requests continue")
    drain.add_argument("--wait", action="store_true", help="return when no request is left")
    _add(commands, "undrain", _undrain, "serve new requests again")
    _add(commands, "requests", _requests, "list the requests that run or wait")
    cancel = _add(commands, "cancel", _cancel, "cancel requests")
    cancel.add_argument("request_id", metavar="ID", help="as `outrider admin requests` lists it")
    for name, act, summary in (
        ("add-draft", _add_draft, "let a target use another draft"),
        ("remove-draft", _remove_draft, "let a target stop using a draft"),
    ):
        _add(commands, name, act, summary).add_argument("draft", metavar="HOST:PORT", help="the draft service")
    load = _add(commands, "load-lora", _load_lora, "load a LoRA adapter in a target")
    load.add_argument("name", metavar="NAME", help="the adapter's name in requests")
    load.add_argument("folder", metavar="DIR", help="its folder, below the target's --lora-dir")
    load.add_argument("--model", metavar="NAME", help="the model that it changes (default: the first)")
    unload = _add(commands, "unload-lora", _unload_lora, "unload a LoRA adapter; requests that use it continue")
    unload.add_argument("name", metavar="NAME", help="the adapter's name in requests")
    _add(commands, "flush-cache", _flush_cache, "empty the prefix cache")
    limits = _add(commands, "limits", _limits, "change limits, and print all")
    for name, kind in _LIMITS.items():
        limits.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="N", help="as the option of the service")
    level = _add(commands, "log-level", _log_level, "change how much is logged")
    level.add_argument("level", choices=[each.lower() for each in LEVELS], help="the lowest level that is logged")
    _add(commands, "reload", _reload, "reload files, as SIGHUP does")


def _add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, act: _Command, summary: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    where = "the service's --admin-listen, HOST:PORT or unix:PATH"
    parser.add_argument("--address", required=True, metavar="ADDRESS", help=where)
    add_token_option(parser)
    parser.set_defaults(act=act)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Run one action; returns the exit code, 1 if it failed."""

    def act(out: Terminal, err: Terminal) -> int:
        try:
            with open_local_channel(arguments.address, read_token(arguments.token_file)) as channel:
                code: int = arguments.act(AdminServiceStub(channel), arguments, out)
                return code
        except grpc.RpcError as error:
            problem = " ".join(str(as_error(error)).split())  # on one line
            err.error(f"outrider admin: {error.code().name}: {printable(problem, 1000)}")
            return 1

    return exit_code("admin", act)


def _status(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:  # noqa: ARG001
    status = stub.GetStatistics(admin_pb2.GetStatisticsRequest(), timeout=_TIMEOUT_SECONDS)
    cache, level = status.cache, admin_pb2.LogLevel.Name(status.log_level).removeprefix("LOG_LEVEL_").lower()
    out.heading(f"{printable(status.model)} {f'refuses: {status.refusal}' if status.refusal else 'serves'}")
    _print(
        out,
        {
            "up": f"{status.uptime_seconds:.0f} s",
            "sequences": f"{status.running} running, {status.waiting} waiting, {status.preemptions} preemptions",
            "generated": f"{status.generated_tokens} tokens, {1000 * status.step_seconds:.1f} ms per step recently",
            "KV blocks": f"{cache.total_blocks} of {cache.block_size} tokens: {cache.free_blocks} free, "
            f"{cache.findable_blocks} findable",
            "log level": level,
        },
    )
    if status.HasField("limits"):
        _print_limits(out, status.limits)
    _print_drafts(out, status.drafts)
    return 0


def _drain(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:
    left = stub.Drain(admin_pb2.DrainRequest(), timeout=_TIMEOUT_SECONDS).left
    while arguments.wait and left:
        time.sleep(_POLL_SECONDS)
        status = stub.GetStatistics(admin_pb2.GetStatisticsRequest(), timeout=_TIMEOUT_SECONDS)
        left = status.running + status.waiting
    out.text(f"drained; {left} left\n")
    return 0


def _undrain(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:  # noqa: ARG001
    refusal = stub.Undrain(admin_pb2.UndrainRequest(), timeout=_TIMEOUT_SECONDS).refusal
    out.text(f"undrained, but requests are refused: {refusal}\n" if refusal else "served again\n")
    return int(bool(refusal))


def _requests(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:  # noqa: ARG001
    for each in stub.ListRequests(admin_pb2.ListRequestsRequest(), timeout=_TIMEOUT_SECONDS).requests:
        state = "runs" if each.is_running else "waits"
        out.text(
            f"{printable(each.request_id)}  {printable(each.caller)}  {state}  {each.age_seconds:.1f} s "
            f"({each.queued_seconds:.1f} s queued)  {each.prompt_tokens} prompt + {each.generated_tokens} tokens  "
            f"{each.blocks} blocks\n"
        )
    return 0


def _cancel(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:
    request = admin_pb2.CancelRequestRequest(request_id=arguments.request_id)
    count = stub.CancelRequest(request, timeout=_TIMEOUT_SECONDS).cancelled
    out.text(f"{count} cancelled\n" if count else "no request has that id\n")
    return 0 if count else 1


def _add_draft(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:
    request = admin_pb2.AddDraftRequest(address=arguments.draft)
    _print_drafts(out, stub.AddDraft(request, timeout=_TIMEOUT_SECONDS).drafts)
    return 0


def _remove_draft(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:
    request = admin_pb2.RemoveDraftRequest(address=arguments.draft)
    _print_drafts(out, stub.RemoveDraft(request, timeout=_TIMEOUT_SECONDS).drafts)
    return 0


def _load_lora(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:
    request = admin_pb2.LoadLoraRequest(name=arguments.name, folder=arguments.folder, model=arguments.model)
    _print_loras(out, stub.LoadLora(request, timeout=_TIMEOUT_SECONDS).loras)
    return 0


def _unload_lora(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:
    response = stub.UnloadLora(admin_pb2.UnloadLoraRequest(name=arguments.name), timeout=_TIMEOUT_SECONDS)
    out.text(f"unloaded; {response.left} requests still use it\n")
    _print_loras(out, response.loras)
    return 0


def _print_loras(out: Terminal, names: Iterable[str]) -> None:
    out.text(f"adapters: {', '.join(names) or 'none'}\n")


def _flush_cache(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:  # noqa: ARG001
    request = admin_pb2.FlushPrefixCacheRequest()
    out.text(f"{stub.FlushPrefixCache(request, timeout=_TIMEOUT_SECONDS).forgotten_blocks} blocks forgotten\n")
    return 0


def _limits(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:
    changes = {name: value for name in _LIMITS if (value := getattr(arguments, name)) is not None}
    if any(value < 0 for value in changes.values()):
        Terminal(sys.stderr).error("outrider admin: no limit is below 0")
        return 1
    request = admin_pb2.SetLimitsRequest(limits=admin_pb2.AdjustableLimits(**changes))
    _print_limits(out, stub.SetLimits(request, timeout=_TIMEOUT_SECONDS).limits)
    return 0


def _log_level(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:
    level = admin_pb2.LogLevel.Value(f"LOG_LEVEL_{arguments.level.upper()}")
    stub.SetLogLevel(admin_pb2.SetLogLevelRequest(level=level), timeout=_TIMEOUT_SECONDS)
    out.text(f"logs {arguments.level} and above\n")
    return 0


def _reload(stub: AdminServiceStub, arguments: argparse.Namespace, out: Terminal) -> int:  # noqa: ARG001
    problems = stub.Reload(admin_pb2.ReloadRequest(), timeout=_TIMEOUT_SECONDS).problems
    out.text("".join(f"{printable(problem, 1000)}\n" for problem in problems) or "reloaded\n")
    return int(bool(problems))


def _print(out: Terminal, lines: dict[str, str]) -> None:
    for name, value in lines.items():
        out.text(f"  {name:<28} {value}\n")


def _print_limits(out: Terminal, limits: admin_pb2.AdjustableLimits) -> None:
    _print(out, {name.replace("_", "-"): f"{getattr(limits, name):g}" for name in _LIMITS})


def _print_drafts(out: Terminal, drafts: Iterable[admin_pb2.DraftStatus]) -> None:
    _print(out, {f"draft {printable(each.address)}": printable(each.absence) or "linked" for each in drafts})
