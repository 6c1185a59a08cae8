"""Costs and gains of speculation as the server decides: `python -m benchmarks.bet TARGET DRAFT`.

Waves of streams run the same prompts in turn, with and without speculation. The tokens of the two are compared over the
whole wave, and over every window of two seconds from the moment at which all streams of the wave decode: each stream
against the same stream without speculation at the same age. Both services share all cores.
"""

import argparse
import itertools
import json
import statistics
import sysconfig
import time
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from benchmarks.drafts.bad_draft import BEHAVIOURS, running_bad_draft
from outrider import Client, PassReport
from services.cli.service_pair import CoreAssignment
from services.cli.service_process import ServiceProcess

_WINDOW = 2.0  # seconds
_STRIDE = 0.25  # from one window's beginning to the next
_SETTLING = 1.0  # seconds between a draft's arrival and the first wave

Mode = Literal["never", "auto"]


@dataclass(frozen=True, slots=True)
class Life:
    """The arrivals of a stream's tokens, in seconds since all streams of its wave decode, with the count of each."""

    moments: Seq[float]
    counts: Seq[int]

    losses: Seq[tuple[float, float]] = ()  # for each pass: its seconds, and the seconds that predictions cost it

    def tokens(self, begin: float, end: float) -> int:
        """Return the number of tokens that arrived after `begin` and up to `end`."""
        return sum(count for moment, count in zip(self.moments, self.counts, strict=True) if begin < moment <= end)

    @property
    def rate(self) -> float:
        """Tokens per second over the whole life."""
        return self.tokens(0.0, self.moments[-1]) / self.moments[-1]


def main() -> None:
    """Print a line of JSON for each draft and number of streams."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("--weights", default="int8", help="of both services (%(default)s)")
    parser.add_argument("--kinds", nargs="+", default=["good", *BEHAVIOURS], help="kinds of drafts (%(default)s)")
    parser.add_argument("--useless", type=Path, help="the folder of a bad model, for the kind 'useless'")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--pairs", type=int, default=3, help="pairs of waves (%(default)s)")
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--random", action="store_true", help="prompts of random token ids instead of Python's library")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--log", type=Path, default=Path("/dev/null"))
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        with _serving(arguments, kind) as client:
            prompts = _prompts(client, arguments, max(arguments.streams))
            time.sleep(_SETTLING)
            for num_streams in arguments.streams:
                print(json.dumps(_measure(client, arguments, kind, prompts[:num_streams])), flush=True)


@contextmanager
def _serving(arguments: argparse.Namespace, kind: str) -> Iterator[Client]:
    options, cores = ["--weights", arguments.weights], CoreAssignment.shared()
    with ExitStack() as stack:
        log = stack.enter_context(arguments.log.open("a"))
        if kind in BEHAVIOURS:
            address = stack.enter_context(running_bad_draft(kind))
        else:
            model = arguments.useless if kind == "useless" else arguments.draft
            command = ["--model", str(model), "--listen", "127.0.0.1:0", *options]
            draft = stack.enter_context(ServiceProcess("draft", command, cores=cores.draft, log=log))
            draft.wait_until_serving()
            address = draft.address
        command = ["--model", str(arguments.target), "--listen", "127.0.0.1:0", *options, "--draft", address]
        command += ["--max-sequences", str(max(arguments.streams))]
        target = stack.enter_context(ServiceProcess("target", command, cores=cores.target, log=log))
        target.wait_until_serving()
        yield stack.enter_context(Client(target.address))


def _prompts(client: Client, arguments: argparse.Namespace, count: int) -> list[list[int]]:
    size = arguments.prompt_tokens
    if arguments.random:
        vocab_size = client.model_info().vocab_size
        return [
            [256 + (7919 * (size * row + place) ** 2) % (vocab_size - 256) for place in range(size)]
            for row in range(count)
        ]
    names = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    texts = (path.read_text(errors="replace")[1000 : 1000 + 8 * size] for path in names if path.stat().st_size > 20_000)
    return [list(client.tokenize(text).token_ids[:size]) for text in itertools.islice(texts, count)]


def _measure(client: Client, arguments: argparse.Namespace, kind: str, prompts: Seq[list[int]]) -> dict[str, object]:
    ratios, worst_means, worst_streams, accepted, rates, losses = [], [], [], [], [], []
    for pair in range(arguments.pairs):
        order: tuple[Mode, ...] = ("never", "auto") if pair % 2 else ("auto", "never")
        lives = {}
        for mode in order:
            lives[mode], num_accepted = _wave(client, prompts, arguments, mode)
            accepted += [num_accepted] if mode == "auto" else []
        plain, auto = lives["never"], lives["auto"]
        rates.append(sum(life.rate for life in plain))
        ratios.append(sum(life.rate for life in auto) / sum(life.rate for life in plain))
        means, streams = _windows(auto, plain)
        losses.append(_losses(auto))
        worst_means.append(min(means, default=1.0))
        worst_streams.append(min(streams, default=1.0))
    return {
        "draft": kind,
        "weights": arguments.weights,
        "streams": len(prompts),
        "plain": round(statistics.median(rates), 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "worst_window": [round(ratio, 3) for ratio in worst_means],
        "worst_stream_window": [round(ratio, 3) for ratio in worst_streams],
        "accepted": accepted,
        "lost_of_worst_window": [round(worst, 4) for worst, _ in losses],
        "lost_of_all": [round(lost, 4) for _, lost in losses],
    }


def _losses(lives: Seq[Life]) -> tuple[float, float]:
    """Return the greatest share of any window that a stream lost to predictions, and the share of all time.

    Both are from the pass reports, so noise of the machine between passes does not enter.
    """
    lost = sum(loss for life in lives for _, loss in life.losses)
    seconds = sum(took for life in lives for took, _ in life.losses)
    return max(worst_window_loss(life.losses) for life in lives), lost / seconds if seconds else 0.0


def worst_window_loss(passes: Seq[tuple[float, float]]) -> float:
    """Return the greatest share of time lost in any run of passes that fills a window; 0 if there was only gain.

    If all passes together do not fill a window, the share is of all of them. A pass is given as its seconds and the
    seconds of it that were lost.
    """
    worst, begin, length, lost = 0.0, 0, 0.0, 0.0
    for took, loss in passes:
        length, lost = length + took, lost + loss
        while length - passes[begin][0] >= _WINDOW:
            length, lost = length - passes[begin][0], lost - passes[begin][1]
            begin += 1
        if length >= _WINDOW:
            worst = max(worst, lost / length)
    return worst if length >= _WINDOW or not length else max(0.0, lost / length)


def _pass_losses(reports: Seq[PassReport]) -> list[tuple[float, float]]:
    plain = [report.verifying for report in reports if not report.predicted]
    usual = statistics.median(plain) if plain else min(report.verifying for report in reports)
    return [
        (
            report.waiting + report.verifying + (report.host or 0.0),
            report.waiting
            + (max(0.0, report.verifying - usual) if report.predicted else 0.0)
            - report.accepted * usual,
        )
        for report in reports[1:]
    ]


def _windows(auto: Seq[Life], plain: Seq[Life]) -> tuple[list[float], list[float]]:
    """Return ratios of tokens, auto over plain, in each window that all lives cover: of all streams, and of each."""
    means, streams = [], []
    end = min(life.moments[-1] for life in [*auto, *plain])
    begin = 0.0
    while begin + _WINDOW <= end:
        pairs = [
            (one.tokens(begin, begin + _WINDOW), other.tokens(begin, begin + _WINDOW))
            for one, other in zip(auto, plain, strict=True)
        ]
        means.append(sum(one for one, _ in pairs) / sum(other for _, other in pairs))
        streams += [one / other for one, other in pairs]
        begin += _STRIDE
    return means, streams


def _wave(client: Client, prompts: Seq[list[int]], arguments: argparse.Namespace, mode: Mode) -> tuple[list[Life], int]:
    with ThreadPoolExecutor(len(prompts)) as pool:
        answers = [*pool.map(lambda prompt: _answer(client, prompt, arguments, mode), prompts)]
    begin = max(life.moments[0] for life, _ in answers)
    lives = [replace(life, moments=[moment - begin for moment in life.moments]) for life, _ in answers]
    return lives, sum(accepted for _, accepted in answers)


def _answer(client: Client, prompt: list[int], arguments: argparse.Namespace, mode: Mode) -> tuple[Life, int]:
    moments, counts = [], []
    with client.stream(
        prompt,
        max_tokens=arguments.new_tokens,
        ignore_eos=True,
        temperature=arguments.temperature,
        seed=1,
        speculation=mode,
        lookup=False if mode == "auto" else None,
        prefix_cache=False,
        pass_reports=True,
    ) as stream:
        for chunk in stream:
            if chunk.token_ids:
                moments.append(time.perf_counter())
                counts.append(len(chunk.token_ids))
        result = stream.result
    return Life(moments, counts, _pass_losses(result.pass_reports)), result.speculation.accepted


if __name__ == "__main__":
    main()
