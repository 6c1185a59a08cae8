"""A real pair beside other engines: `python -m benchmarks.real_figures --models DIR`.

DIR holds target/ and draft/. All engines are measured in turn, in all their ways, with one kind of prompts and number
of streams before the next. Samples are appended to those in the JSON file; docs/inside/benchmarks.md says what the
engines need. `--kinds document` gives the figures of prefill and decode at 4k tokens.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.peers.capacity import Capacity
from benchmarks.peers.installed import ENGINES, InstalledPeers
from benchmarks.peers.peer_error import PeerError
from benchmarks.prompts.kinds import KINDS, MIXED, SHORT, longest, mixed_prompts, prompts_of
from benchmarks.sample import OURS, Sample
from outrider import Client
from services.bench.answer import Answer
from services.bench.contender import AUTO, Contender
from services.bench.served_target import ServedTarget
from services.bench.setting import Setting
from services.bench.vital_signs import Machine
from services.cli.service_pair import CoreAssignment, ModelPair, running_pair
from services.cli.terminal import Terminal
from services.engine.config import CPU_WEIGHT_FORMATS
from services.engine.decoder.weight_choice import STORED

_DRAFTS = {"int4": "int4", STORED: STORED}  # the draft's format by the target's; int8 for all others
_FORMATS = (*CPU_WEIGHT_FORMATS, STORED)
_TRIAL = 8  # tokens
_ROUND = 512
_ROOM = 64  # tokens beyond a prompt and its answer: predictions


@dataclass(frozen=True)
class Prompts:
    """Prompts that are sent at once."""

    kind: str
    turn: int
    token_ids: Seq[Seq[int]]


def main(arguments: Seq[str] | None = None) -> None:
    """Measure all samples; print and save each as soon as it is there."""
    options = _parser().parse_args(arguments)
    out = Terminal(sys.stdout)
    with tempfile.TemporaryFile("w+") as log, ExitStack() as stack:
        try:
            _measure(options, stack, log, out)
        except Exception:
            log.seek(0)
            out.text(log.read())
            raise


def _measure(options: argparse.Namespace, stack: ExitStack, log: IO[str], out: Terminal) -> None:
    record = json.loads(options.json.read_text()) if options.json.exists() else {"versions": {}, "samples": []}
    setting = _setting(options)
    client = stack.enter_context(_serving(setting, options, log))
    prompts = [*_prompts(client, options)]
    capacity = Capacity(max(options.streams), _positions(prompts, options.new_tokens))
    peers = InstalledPeers(
        options.llama_server,
        options.gguf,
        options.openvino_python,
        options.openvino,
        options.vllm_python,
        capacity,
        options.peers,
    )
    ours = ServedTarget(client, predicts=True, draft_lengths=(), lookup=True)
    contenders: dict[str, Contender] = {OURS: ours}
    contenders.update(_started(peers, setting, prompts[0], stack, log, out))
    record["machine"] = {**asdict(Machine.of(setting)), "name": options.machine}
    record["versions"] |= peers.versions
    options.json.parent.mkdir(parents=True, exist_ok=True)
    for sample in _samples(contenders, prompts, options, peers.absent):
        out.text(_line(sample) + "\n")
        record["samples"].append(asdict(sample))
        options.json.write_text(_written(record))  # the run may be cut short
    for name, reason in peers.absent.items():
        out.note(f"{name} is absent: {reason}")


def _positions(prompts: Seq[Prompts], new_tokens: int) -> int:
    """Return the positions that each sequence needs, rounded up: some engines compile for each length."""
    wanted = max(longest(each.token_ids) for each in prompts) + new_tokens + _ROOM
    return -(-wanted // _ROUND) * _ROUND


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, metavar="DIR", help="holds target/ and draft/, or *.gguf")
    parser.add_argument("--weights", choices=_FORMATS, default="bf16", help="format of the target (%(default)s)")
    parser.add_argument("--draft-weights", choices=_FORMATS, help="(int4 with int4, stored with stored, else int8)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=SHORT, help="prompts of one stream (%(default)s)")
    parser.add_argument("--streams", nargs="+", type=int, default=[1], metavar="N", help="at once (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="rounds of prompts (%(default)s)")
    parser.add_argument("--new-tokens", type=int, default=64, metavar="N", help="tokens of each answer (%(default)s)")
    parser.add_argument(
        "--draft-lengths", nargs="*", type=int, default=[3, 5], metavar="K", help="of the peers; none: plain only"
    )
    parser.add_argument("--peers", nargs="*", choices=ENGINES, default=ENGINES, help="engines (%(default)s)")
    parser.add_argument("--weights-cache", metavar="DIR", help="the option of our services")
    parser.add_argument("--machine", metavar="NAME", help="name of this machine, if the system does not report one")
    parser.add_argument("--json", type=Path, default=Path("build/real.json"), help="(%(default)s)")
    group = parser.add_argument_group("what peers need")
    group.add_argument("--llama-server", type=Path, metavar="PROGRAM", help="llama.cpp's server")
    group.add_argument("--gguf", type=Path, metavar="DIR", help="the folder of target-bf16.gguf, draft-q4_0.gguf, …")
    group.add_argument("--openvino-python", type=Path, metavar="PROGRAM", help="a Python that has openvino_genai")
    group.add_argument("--openvino", type=Path, metavar="DIR", help="the folder of target-fp16/, draft-int4/, …")
    group.add_argument("--vllm-python", type=Path, metavar="PROGRAM", help="a Python that has vllm")
    return parser


def _setting(options: argparse.Namespace) -> Setting:
    suffix = ".gguf" if options.weights == STORED else ""
    return Setting(
        models=ModelPair(*(options.models / f"{name}{suffix}" for name in ("target", "draft"))),
        weights=options.weights,
        draft_weights=options.draft_weights or _DRAFTS.get(options.weights, "int8"),
        draft_lengths=options.draft_lengths,
    )


@contextmanager
def _serving(setting: Setting, options: argparse.Namespace, log: IO[str]) -> Iterator[Client]:
    sizes = ["--max-sequences", str(max(options.streams))]
    cached = ["--weights-cache", options.weights_cache] if options.weights_cache else []
    own = [*setting.service_options(), *sizes, *cached]
    drafts = [*setting.service_options(of_draft=True), *sizes, *cached]
    shared = CoreAssignment.shared()
    with (
        running_pair(setting.models, options=own, draft_options=drafts, cores=shared, log=log) as pair,
        Client(pair.target.address) as client,
    ):
        yield client


def _prompts(client: Client, options: argparse.Namespace) -> Iterator[Prompts]:
    for streams in options.streams:
        for turn in range(options.rounds):
            if streams > 1:
                yield Prompts(MIXED, turn, mixed_prompts(client, streams))
                continue
            for kind in options.kinds:
                of_kind = prompts_of(client, kind)
                yield Prompts(kind, turn, [of_kind[turn % len(of_kind)]])


def _started(
    peers: InstalledPeers, setting: Setting, prompts: Prompts, stack: ExitStack, log: IO[str], out: Terminal
) -> Iterator[tuple[str, Contender]]:
    """Start the peers that are installed; a peer that does not answer counts as absent."""
    for name, peer in peers.of(setting, log):
        out.note(f"{name} …")
        try:
            contender = stack.enter_context(peer)
            for way in contender.ways:
                contender.answers([prompts.token_ids[0][:_TRIAL]], way, num_tokens=_TRIAL)
        except (PeerError, OSError) as error:
            peers.absent[name] = str(error)
        else:
            yield name.removesuffix(f" {setting.weights}"), contender


def _samples(
    contenders: dict[str, Contender], prompts: Seq[Prompts], options: argparse.Namespace, absent: dict[str, str]
) -> Iterator[Sample]:
    """Send all prompts to all contenders; one that fails counts as absent from then on."""
    known = {"run": time.strftime("%Y-%m-%d %H:%M:%S"), "weights": options.weights}
    contenders[OURS].answers(prompts[0].token_ids[:1], AUTO, num_tokens=options.new_tokens)  # it adapts in an answer
    for each in prompts:
        known |= {"kind": each.kind, "turn": each.turn, "prompt_tokens": longest(each.token_ids)}
        for name, contender in [*contenders.items()]:
            try:
                yield from _in_all_ways(contender, each, options.new_tokens, {**known, "engine": name})
            except PeerError as error:
                absent[f"{name} {options.weights}"] = str(error)
                del contenders[name]


def _in_all_ways(
    contender: Contender, prompts: Prompts, num_tokens: int, known: Mapping[str, object]
) -> Iterator[Sample]:
    plain: list[Answer] = []
    for way in contender.ways:
        answers = contender.answers(prompts.token_ids, way, num_tokens=num_tokens)
        plain = plain or answers
        yield Sample.of(answers, plain, way=way.name, **known)


def _written(record: Mapping[str, Any]) -> str:
    """Return the record as JSON, with one line for each sample."""
    known = {name: value for name, value in record.items() if name != "samples"}
    samples = ",\n".join(json.dumps(sample) for sample in record["samples"])
    return f'{json.dumps(known, indent=1)[:-2]},\n "samples": [\n{samples}\n]}}\n'


def _line(sample: Sample) -> str:
    rate = f"{sample.rate:.1f}" if sample.rate else "?"
    return (
        f"{sample.engine:<15}{sample.weights:<7}{sample.way:<7}{sample.kind:<9}{sample.streams:>3} streams "
        f"{rate:>7} tokens/s, first token {sample.first_token:.2f} s, "
        f"{sample.equal} of {sample.streams} as without a draft"
    )


if __name__ == "__main__":
    main()
