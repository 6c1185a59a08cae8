"""A real pair's chart and tables: bars as long as rates, and whether each engine's draft changed its tokens."""

import xml.etree.ElementTree as ET
from dataclasses import asdict

from benchmarks.real_chart import draw_chart
from benchmarks.real_summary import lines, prefill, selected
from benchmarks.sample import OURS, Sample

MACHINE = {"processor": "a processor", "cores": 2, "name": None}


def sample(engine: str, way: str, rate: float | None, **others: object) -> Sample:
    known = {"run": "today", "weights": "int8", "kind": "chat", "turn": 0, "streams": 1, "prompt_tokens": 20}
    return Sample(**{**known, "first_token": 0.5, "equal": 1, **others}, engine=engine, way=way, rate=rate)


OURS_AND_A_PEER = [
    sample(OURS, "plain", 10.0),
    sample(OURS, "auto", 20.0),
    sample("an <engine>", "plain", 5.0),
    sample("an <engine>", "k = 3", 8.0),
    sample("an <engine>", "k = 5", 9.0, equal=0),
]


def drawn(samples: list[Sample]) -> tuple[list[float], list[str | None]]:
    """The bars' widths, and the texts."""
    chart = ET.fromstring(draw_chart({"machine": MACHINE, "samples": [asdict(each) for each in samples]}))
    widths = [float(each.get("width", "")) for each in chart.iter() if each.tag.endswith("rect")]
    return widths, [each.text for each in chart.iter() if each.tag.endswith("text")]


def test_the_chart_shows_our_auto_mode_and_a_peers_best() -> None:
    widths, texts = drawn([*OURS_AND_A_PEER, sample(OURS, "k = 3", 25.0)])
    assert [width / widths[0] for width in widths] == [1.0, 2.0, 0.5, 0.9]
    assert texts[0] == "One stream, weights of 8 bits: tokens per second"
    named = ["Outrider int8", "10.0 → 20.0 · same tokens", "an <engine> int8", "5.0 → 9.0 · other tokens"]
    assert texts[1:5] == named
    assert texts[-1] == "a processor, 2 cores."


def test_many_streams_and_long_contexts_have_their_own_panels() -> None:
    many = sample(OURS, "plain", 80.0, streams=8, kind="mixed", equal=8)
    long = sample(OURS, "plain", 6.0, kind="document", prompt_tokens=4000, first_token=20.0)
    _, texts = drawn([many, long])
    assert texts[0::3][:3] == [
        "8 streams, weights of 8 bits: tokens per second",
        "Reading a prompt of 4,000 tokens, weights of 8 bits: tokens per second",
        "Answering a prompt of 4,000 tokens, weights of 8 bits: tokens per second",
    ]
    assert texts[2::3][:3] == ["80.0", "200.0", "6.0"]


def test_a_peer_is_compared_with_the_same_prompts_and_run() -> None:
    later = [sample(OURS, "auto", 60.0, run="later"), sample("an <engine>", "k = 5", 10.0, run="later")]
    _, peer = lines([*OURS_AND_A_PEER, *later, sample(OURS, "auto", 1000.0, run="of ours alone")])
    assert peer.ratio is not None
    assert peer.ratio.median == (20.0 / 9.0 + 60.0 / 10.0) / 2
    assert (peer.num_equal, peer.num_answers) == (1, 2)


def test_a_document_is_not_counted_among_short_prompts() -> None:
    long = sample(OURS, "plain", 6.0, kind="document", prompt_tokens=4000, first_token=20.0)
    samples = [*OURS_AND_A_PEER, long]
    assert selected(samples, ["int8"], streams=1) == OURS_AND_A_PEER
    [line] = lines(selected(samples, ["int8"], streams=1, is_long=True), prefill)
    assert line.best.median == 200.0


def test_streams_that_never_decoded_together_say_nothing() -> None:
    short = [sample(OURS, "plain", None, streams=2), sample(OURS, "auto", 30.0, streams=2)]
    widths, texts = drawn([*OURS_AND_A_PEER, *short])
    assert len(widths) == 4
    assert not any(text and text.startswith("2 streams") for text in texts)
