"""The report: the vital signs as lines for a person to read, in milliseconds and tokens per second."""

from collections.abc import Iterator

from services.bench.contender import PLAIN
from services.bench.decoder_figures import DecoderFigures
from services.bench.service_figures import ServiceFigures
from services.bench.spread import Spread
from services.bench.vital_signs import VitalSigns
from services.bench.way_figures import WayFigures
from services.cli.terminal import Terminal

_MILLI = 1e3


def print_report(signs: VitalSigns, out: Terminal) -> None:
    """Write all figures; each median is followed by its quartiles."""
    machine = signs.machine
    out.note(f"{machine.processor}, {machine.cores} cores, {machine.isa}, build {machine.build[:12]}")
    out.note(", ".join(f"{name} {value}" for name, value in signs.setting.items()))
    for name, decoder in (("target", signs.target), ("draft", signs.draft)):
        if decoder is not None:
            out.heading(f"{name}, in this process")
            _print(_decoder_lines(decoder), out)
    for placement, services in signs.services.items():
        draft = f", draft on cores {services.draft_cores}" if services.draft_cores else ""
        out.heading(f"services, {placement}: target on cores {services.target_cores}{draft}")
        _print(_service_lines(services), out)
        for way, figures in services.ways.items():
            _print(_way_lines(way, figures), out)
        for peer, ways in services.peers.items():
            out.heading(peer)
            for way, figures in ways.items():
                _print(_way_lines(way, figures), out)
    if signs.plan_fractions:
        out.heading("plan fraction")
        _print(((way, f"{fraction:>9.2f}") for way, fraction in signs.plan_fractions.items()), out)


def _print(lines: Iterator[tuple[str, str]], out: Terminal) -> None:
    for name, text in lines:
        out.text(f"{name:<28}{text}\n")


def _decoder_lines(figures: DecoderFigures) -> Iterator[tuple[str, str]]:
    one = figures.pass_seconds[1]
    yield "bytes per step, MB", f"{figures.step_bytes / 1e6:>9.1f}"
    yield "memory read, GB/s", figures.read_rate.text(scale=1e-9)
    yield "bandwidth fraction", f"{figures.bandwidth_fraction:>9.2f}"
    yield "prefill, tokens/s", figures.prefill_rate.text()
    yield "plain decode, ms", one.text(scale=_MILLI, digits=2)
    for name, rate in (("products", figures.product_rate), ("attention", figures.attention_rate)):
        if rate is not None:
            yield f"{name}, G operations/s", rate.text(scale=1e-9)
    yield "roofline fraction, prefill", f"{figures.prefill_fraction:>9.2f}"
    for rows, seconds in figures.pass_seconds.items():
        fraction = f"roofline fraction {figures.roofline_fractions[rows]:.2f}"
        yield f"v({rows})", f"{seconds.median / one.median:>9.2f}  ({seconds.median * _MILLI:.2f} ms, {fraction})"


def _service_lines(figures: ServiceFigures) -> Iterator[tuple[str, str]]:
    if figures.link_round_trip is not None:
        yield "link round trip, ms", figures.link_round_trip.text(scale=_MILLI, digits=3)
    yield "prefill, tokens/s", figures.prefill_rate.text()
    for way, rate in figures.total_rates.items():
        yield f"{way}, many streams, tokens/s", rate.text() if rate else "       none: too few tokens to decode at once"


def _way_lines(way: str, figures: WayFigures) -> Iterator[tuple[str, str]]:
    yield f"{way}, tokens/s", figures.rate.text()
    if way != PLAIN.name:
        yield "  speed-up", figures.speed_up.text(digits=2)
        yield "  equal to plain", f"{figures.num_equal:>9} of {figures.num_answers}"
    if figures.oracle_fraction is not None:
        yield "  tokens per pass", f"{figures.tokens_per_pass:>9.2f}"
        yield "  oracle fraction", f"{figures.oracle_fraction:>9.2f}"
    yield "  first token, ms", figures.first_token.text(scale=_MILLI)
    if figures.gap is not None and figures.gap_p99 is not None:
        yield "  between arrivals, ms", f"{figures.gap.text(scale=_MILLI)}, p99 {figures.gap_p99 * _MILLI:.1f}"
    yield from _pass_lines(figures)


def _pass_lines(figures: WayFigures) -> Iterator[tuple[str, str]]:
    if (passes := figures.passes) is None:
        return
    if passes.acceptance is not None:
        by_position = " ".join(f"{fraction:.2f}" for fraction in passes.by_position)
        yield "  acceptance", f"{passes.acceptance:>9.2f}  (first i right: {by_position})"
    parts: dict[str, Spread | None] = {"waiting": passes.waiting, "pass": passes.verifying, "host work": passes.host}
    for name, spread in parts.items():
        if spread is not None:
            yield f"  {name}, ms", spread.text(scale=_MILLI, digits=2)
