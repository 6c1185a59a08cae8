"""Every figure of the README in one run: `python -m benchmarks.figures --models DIR`.

DIR holds target/ and draft/, as `python -m benchmarks.make_pair DIR` makes them. For each format of the
target's weights the vital signs are measured as by `outrider bench`, in turn with the peers that are named;
docs/inside/benchmarks.md says how to install them. All figures go to one JSON file, and a chart is drawn from it. With
all peers it takes about a quarter of an hour on two idle cores.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from benchmarks.chart import draw_chart
from benchmarks.peers.installed import InstalledPeers
from benchmarks.peers.peer_error import PeerError
from services.bench.contender import Contender
from services.bench.report import print_report
from services.bench.setting import Setting, add_setting_options, read_setting
from services.bench.vital_signs import VitalSigns, measure
from services.cli.service_pair import ModelPair
from services.cli.terminal import Terminal
from services.engine.config import CPU

# The target's format, with the draft's. Random weights lose more in int4 than trained weights do: an int4 draft of a
# target in another format would seldom predict correctly.
_FORMATS = {"bf16": "int8", "int8": "int8", "int4": "int4"}
_TRIAL = range(300, 308)  # token ids


def main(arguments: Seq[str] | None = None) -> None:
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
    parser.add_argument("--models", type=Path, required=True, metavar="DIR", help="the folder of target/ and draft/")
    parser.add_argument("--formats", nargs="+", choices=_FORMATS, default=[*_FORMATS], help="of the target's weights")
    parser.add_argument("--draft-weights", choices=_FORMATS, help="of all drafts (int4 for int4 targets, else int8)")
    add_setting_options(parser)
    parser.set_defaults(rounds=3, runs=15, new_tokens=64)
    parser.add_argument("--json", type=Path, default=Path("docs/pictures/speed.json"), help="(%(default)s)")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="write the chart to this file, as SVG")
    group = parser.add_argument_group("peers; transformers is found without an option")
    group.add_argument("--llama-server", type=Path, metavar="PROGRAM", help="llama.cpp's server")
    group.add_argument("--gguf", type=Path, metavar="DIR", help="the folder of target-bf16.gguf, draft-q4_0.gguf, …")
    group.add_argument("--openvino-python", type=Path, metavar="PROGRAM", help="a Python that has openvino_genai")
    group.add_argument("--openvino", type=Path, metavar="DIR", help="the folder of target-fp16/, draft-int4/, …")
    group.add_argument("--no-peers", action="store_true", help="measure Outrider alone")
    return parser


def _setting(options: argparse.Namespace, weights: str) -> Setting:
    models = ModelPair(options.models / "target", options.models / "draft")
    draft_weights = options.draft_weights or _FORMATS[weights]
    return read_setting(options, models=models, weights=weights, draft_weights=draft_weights)


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
    """Start the peers that are installed; a peer that does not answer counts as absent."""
    prompt, num_tokens = _TRIAL, len(_TRIAL)
    if setting.device != CPU:  # a peer compiles for the lengths that it sees
        prompt, num_tokens = range(300, 300 + setting.prompt_tokens), setting.new_tokens
    for name, peer in peers.of(setting, log):
        out.note(f"{name} …")
        try:
            contender = stack.enter_context(peer)
            for way in contender.ways:
                contender.answers([prompt], way, num_tokens=num_tokens)
        except (PeerError, OSError) as error:
            peers.absent[name] = str(error)
        else:
            yield contender


if __name__ == "__main__":
    main()
