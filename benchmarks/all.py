"""Every figure of the README in one run: `python -m benchmarks.all --models DIR`.

DIR holds target/ and draft/, as `python -m benchmarks.make_pair DIR` makes them. For each format of the target's
weights the vital signs are measured as by `outrider bench`, in turn with whichever peers are named; what they need is
in benchmarks/README.md. All goes into one file of JSON, and a chart is drawn from it. With all peers it takes about a
quarter of an hour on two cores that do nothing else.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from benchmarks.chart import draw_chart
from benchmarks.peers.installed import InstalledPeers
from benchmarks.peers.peer_error import PeerError
from services.cli.bench.contender import Contender
from services.cli.bench.report import print_report
from services.cli.bench.setting import Setting
from services.cli.bench.vital_signs import VitalSigns, measure
from services.cli.service_pair import ModelPair
from services.cli.terminal import Terminal
from services.engine.config import CPU

# Of the target's weights, with the draft's. Random weights lose more in int4 than trained ones do: such a draft of a
# target in another format would seldom be right.
_FORMATS = {"bf16": "int8", "int8": "int8", "int4": "int4"}
_TRIAL = range(300, 308)  # token ids


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all formats, print the figures, save them and draw the chart."""
    options = _parser().parse_args(arguments)
    out = Terminal(sys.stdout)
    peers = InstalledPeers(options.llama_server, options.gguf, options.openvino_python, options.openvino)
    formats: dict[str, Any] = {}
    began = time.monotonic()
    for weights in options.formats:
        signs = _measure(_setting(options, weights), None if options.no_peers else peers, out)
        print_report(signs, out)
        formats[weights] = asdict(signs)
        _save({"formats": formats, "absent": peers.absent}, options)  # a later format may fail
    for name, reason in peers.absent.items():
        out.note(f"{name} is absent: {reason}")
    out.note(f"{time.monotonic() - began:.0f} s in all")


def _save(record: Mapping[str, Any], options: argparse.Namespace) -> None:
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(record, indent=1) + "\n")
    if options.chart:
        options.chart.write_text(draw_chart(record))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, metavar="DIR", help="of target/ and draft/")
    parser.add_argument("--formats", nargs="+", choices=_FORMATS, default=[*_FORMATS], help="of the target's weights")
    parser.add_argument("--draft-weights", choices=_FORMATS, help="ours and the peers' (int4 with int4, else int8)")
    parser.add_argument("--device", default=CPU, help="what computes: cpu, or cuda:N (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="answers in each way (%(default)s)")
    parser.add_argument("--runs", type=int, default=15, help="timings of each pass (%(default)s)")
    parser.add_argument("--context", type=int, default=256, help="tokens before the rows of a pass (%(default)s)")
    parser.add_argument("--prompt-tokens", type=int, default=128, help="of each prompt (%(default)s)")
    parser.add_argument("--new-tokens", type=int, default=64, help="of each answer (%(default)s)")
    parser.add_argument("--draft-lengths", nargs="+", type=int, default=(3, 5, 8), help="tried in turn")
    parser.add_argument("--placements", nargs="+", default=("shared", "apart"), help="as of `outrider bench` (both)")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/cpu.json"), help="(%(default)s)")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw it there, as SVG")
    group = parser.add_argument_group("peers; transformers is found by itself")
    group.add_argument("--llama-server", type=Path, metavar="PROGRAM", help="llama.cpp's server")
    group.add_argument("--gguf", type=Path, metavar="DIR", help="of target-bf16.gguf, draft-q4_0.gguf, …")
    group.add_argument("--openvino-python", type=Path, metavar="PROGRAM", help="a Python that has openvino_genai")
    group.add_argument("--openvino", type=Path, metavar="DIR", help="of target-fp16/, draft-int4/, …")
    group.add_argument("--no-peers", action="store_true", help="measure Outrider alone")
    return parser


def _setting(options: argparse.Namespace, weights: str) -> Setting:
    return Setting(
        models=ModelPair(options.models / "target", options.models / "draft"),
        weights=weights,
        draft_weights=options.draft_weights or _FORMATS[weights],
        context=options.context,
        runs=options.runs,
        rounds=options.rounds,
        prompt_tokens=options.prompt_tokens,
        new_tokens=options.new_tokens,
        draft_lengths=options.draft_lengths,
        placements=options.placements,
        device=options.device,
    )


def _measure(setting: Setting, peers: InstalledPeers | None, out: Terminal) -> VitalSigns:
    with tempfile.TemporaryFile("w+") as log, ExitStack() as stack:
        try:
            contenders = [*_start(peers, setting, stack, log, out)] if peers else []
            return measure(setting, peers=contenders, say=out.note, log=log)
        except Exception:
            log.seek(0)
            out.text(log.read())
            raise


def _start(
    peers: InstalledPeers, setting: Setting, stack: ExitStack, log: IO[str], out: Terminal
) -> Iterator[Contender]:
    """Start the peers that are here; one that does not answer is as good as absent."""
    prompt, num_tokens = _TRIAL, len(_TRIAL)
    if setting.device != CPU:  # a peer compiles for the length that it sees
        prompt, num_tokens = range(300, 300 + setting.prompt_tokens), setting.new_tokens
    for name, peer in peers.of(setting, log):
        out.note(f"{name} …")
        try:
            contender = stack.enter_context(peer)
            for way in contender.ways:
                contender.answer(prompt, way, num_tokens=num_tokens)
        except (PeerError, OSError) as error:
            peers.absent[name] = str(error)
        else:
            yield contender


if __name__ == "__main__":
    main()
