"""The line below an answer: who predicted how much of it, and a speed only where the answer is long enough for one."""

from collections.abc import Callable
from typing import Any

import pytest

from outrider.v1 import common_pb2, generation_pb2
from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import PROMPT, SEED, PassesServicer
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.scripted_server import ScriptedServer, answer

Show = Callable[..., ShownPage]
JUDGE = """([answer, alone]) => import("/page/script/answer/result.js").then(({ judge }) => {
  const { title, details } = judge(answer, alone);
  return `${title} ${details}`.trim();
})"""
MEASURES = "This is the server’s estimate; “Side by side” measures it, and compares every byte."
TOO_SHORT = "An answer of fewer than 50 tokens is too short to tell a speed."


def made(tokens: int, speedup: float = 0.0, *, seconds: float = 1.0, reason: str = "", **kinds: int) -> dict[str, Any]:
    """An answer as the page holds it, one token a pass; `kinds` are how many tokens each source predicted."""
    sources = [kind for kind, number in kinds.items() for _ in range(number)]
    predicted = [{"report": {"predicted": 1, "source": "draft" if kind == "alternate" else kind}} for kind in sources]
    return {
        "text": "a" * tokens,
        "tokens": [
            {"kind": kind, "record": {"id": 7, "raw_logprob": -1}}
            for kind in sources + ["own"] * (tokens - len(sources))
        ],
        "passes": predicted + [{"report": {"predicted": 0, "source": None}}] * (tokens - len(sources)),
        "moments": [],
        "end": {
            "timings": {"decode": seconds},
            "usage": {"completion_tokens": tokens},
            "speculation": {
                "passes": tokens,
                "num_spec_steps": len(sources),
                "predicted": len(sources),
                "speedup": speedup,
                "no_speculation_reason": reason or None,
                "no_speculation_detail": "so slow" if reason else "",
            },
        },
    }


@pytest.mark.parametrize(
    ("answered", "said"),
    [
        (
            made(60, 1.62, draft=20, alternate=5, lookup=8),
            "1.6 × faster with the draft and the lookup. 33 of 60 tokens were predicted: 25 by the draft, "
            f"8 by the lookup in the text. {MEASURES}",
        ),
        (
            made(60, 2.5, lookup=30),
            f"2.5 × faster with the lookup. 30 of 60 tokens were predicted by the lookup in the text. {MEASURES}",
        ),
        (
            made(60, 0.91, draft=30),
            "The draft does not pay here: 0.91 × the speed. 30 of 60 tokens were predicted by the draft. " + MEASURES,
        ),
        (
            made(60, 1.01, draft=30, lookup=2),
            "The draft and the lookup make no difference here. 32 of 60 tokens were predicted: 30 by the draft, "
            f"2 by the lookup in the text. {MEASURES}",
        ),
        (made(49, 2.5, lookup=6), f"6 of 49 tokens were predicted by the lookup in the text. {TOO_SHORT}"),
        (
            made(200, 1.4, lookup=1),
            "1 of 200 tokens was predicted by the lookup in the text. Only 1 of 200 passes had predictions, too few to "
            "tell a speed.",
        ),
        (made(60, reason="slower"), "Nothing was predicted: so slow."),
        (made(6, reason="no_predictor"), "Nothing was predicted: so slow."),
        (made(60, 0.0, draft=30), "30 of 60 tokens were predicted by the draft."),
    ],
)
def test_who_predicted_is_said_and_only_what_was_measured(shown: ShownPage, answered: dict[str, Any], said: str):
    assert shown.tab.evaluate(JUDGE, [answered, None]) == said


@pytest.mark.parametrize(
    ("tokens", "title"),
    [
        (61, "2.0 × faster with the draft, the same bytes."),
        (31, "20 of 31 tokens were predicted by the draft, the same bytes."),
    ],
)
def test_side_by_side_a_short_answer_claims_the_bytes_only(shown: ShownPage, tokens: int, title: str):
    said = shown.tab.evaluate(JUDGE, [made(tokens, draft=20), made(tokens, seconds=2.0)])
    assert said.startswith(
        f"{title} {tokens} tokens, {tokens} bytes and every log-probability compared: all are equal."
    )
    assert f"{(tokens - 1) / 2:.1f} tokens/s alone, {tokens - 1:.1f} with predictions." in said


def test_the_result_is_what_the_server_reports_of_an_answer(show: Show):
    class Judged(PassesServicer):
        def _finished(self, *args: Any) -> generation_pb2.Finished:
            finished = super()._finished(*args)
            finished.speculation.CopyFrom(
                common_pb2.SpeculationStats(passes=14, num_spec_steps=12, predicted=40, speedup=1.6)
            )
            return finished

    with ScriptedServer(servicer_type=Judged) as server, RunningGateway(server.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        shown.fill(seed=str(SEED))
        shown.ask(PROMPT)
        predicted = sum(kind != "own" for kind in shown.kinds())
        said = shown.tab.text_content(".result") or ""
        assert said.startswith(f"{predicted} of {len(answer([*PROMPT.encode()], SEED))} tokens were predicted: ")
        assert said.endswith(f"by the lookup in the text. {TOO_SHORT}")


def test_the_header_says_whether_a_draft_is_connected(show: Show):
    class Drafted(PassesServicer):
        is_drafted = True
        head = ""

        def GetModelInfo(self, *args: Any) -> generation_pb2.GetModelInfoResponse:  # noqa: N802
            info = super().GetModelInfo(*args)
            info.has_draft, info.head = Drafted.is_drafted, Drafted.head
            return info

    with ScriptedServer(servicer_type=Drafted) as server, RunningGateway(server.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        assert "no draft" not in (shown.tab.text_content("#model") or "")
        assert shown.tab.is_visible(".legend .draft, .legend .alternate")
        assert shown.tab.locator(".intro").inner_text().startswith("A small draft model predicts")
        Drafted.is_drafted = False
        shown.ask(PROMPT)
        shown.tab.wait_for_selector("#model:has-text('no draft')")
        assert not shown.tab.is_visible(".legend .draft, .legend .alternate")
        assert shown.tab.is_visible(".legend .lookup")
        Drafted.head = "mtp"
        shown.ask(PROMPT)
        shown.tab.wait_for_selector("#model:has-text('head mtp')")
        assert "no draft" not in (shown.tab.text_content("#model") or "")
        assert shown.tab.locator(".intro").inner_text().startswith("The next tokens are predicted from repetitions")
