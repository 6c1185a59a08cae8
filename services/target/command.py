"""The target command: its options, and its process."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from services.service.access.credential_files import CredentialFiles
from services.service.options import add_options as add_service_options
from services.service.options import engine_config, server_config, telemetry_config
from services.service.service_process import run_service
from services.target.message.syntax import AUTO, NONE, REASONING_SYNTAXES, TOOL_SYNTAXES
from services.target.server import TargetServer

_DRAFT_FILES = {
    "tls-ca": "link to drafts over TLS, trusting certificates of these authorities, PEM",
    "tls-cert": "certificate chain that is shown to drafts, PEM",
    "tls-key": "its private key, PEM",
    "token-file": "file with the token that is shown to drafts",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    add_service_options(parser)
    parser.add_argument(
        "--draft",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="a draft service; several may be given: each sequence goes to the one with the least to do, and to "
        "another when that fails",
    )
    for name, description in _DRAFT_FILES.items():
        parser.add_argument(f"--draft-{name}", type=Path, metavar="FILE", help=description)
    parser.add_argument(
        "--run-ahead",
        type=int,
        metavar="TOKENS",
        help="how far the draft predicts beyond what a pass verifies (default: 8, or 0 where it has to share the cores "
        "or the GPU with the target)",
    )
    parser.add_argument(
        "--alternates",
        type=int,
        default=3,
        metavar="N",
        help="for how many of its next predictions a draft that runs ahead prepares to be wrong (default: %(default)s)",
    )
    parser.add_argument(
        "--lookup",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="predict that a text goes on as where it read the same before (default: it does)",
    )
    _add_parser(parser, "tool", TOOL_SYNTAXES)
    _add_parser(parser, "reasoning", REASONING_SYNTAXES)
    _add_contract(parser)


def _add_parser(parser: argparse.ArgumentParser, kind: str, syntaxes: Iterable[str]) -> None:
    parser.add_argument(
        f"--{kind}-parser",
        choices=[AUTO, NONE, *syntaxes],
        default=AUTO,
        help=f"how the model marks its {kind} parts (default: %(default)s, what its chat template shows)",
    )


def _add_contract(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vllm-contract",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="serve vLLM's gRPC contract too, for routers that speak it (default: where outrider[vllm] is installed)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""

    def make() -> TargetServer:
        engine, server = engine_config(arguments), server_config(arguments)
        return TargetServer(
            engine,
            server,
            name=arguments.name,
            telemetry=telemetry_config(arguments),
            drafts=arguments.draft,
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
            vllm_contract=arguments.vllm_contract,
        )

    return run_service("target", make, log_format=arguments.log_format)
