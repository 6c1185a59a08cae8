"""The page shows the answer of the RPC: the text to the byte, and the source of each token."""

from collections.abc import Callable

import httpx2

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import PER_PASS, PROMPT, SEED, PassesServicer, kind_of
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.scripted_server import Fault, ScriptedServer, answer, text_of

Show = Callable[..., ShownPage]
WHOLE = answer(list(PROMPT.encode()), SEED)


def test_each_token_is_shown_with_its_source(shown: ShownPage):
    assert shown.answer() == text_of(WHOLE, is_whole=True)
    assert shown.kinds() == [kind_of(position) for position in range(len(WHOLE))]
    assert {*shown.kinds()} == {"draft", "alternate", "lookup", "own"}
    assert [("silent" in classes) for text, classes in shown.tokens()] == [text == "" for text, _ in shown.tokens()]
    line = "one => getComputedStyle(one).textDecorationStyle"
    styles = [shown.tab.locator(f".text .{kind}").first.evaluate(line) for kind in ("draft", "alternate", "lookup")]
    assert len({*styles}) == 3, "the lines differ too, not the colours alone"
    assert f"{len(WHOLE)} tokens, stop token, seed {SEED}" in (shown.tab.text_content("#status") or "")


def test_a_pass_is_pointed_at(shown: ShownPage):
    shown.tab.locator(".token").nth(PER_PASS + 1).hover()
    pointed = [index for index, (_, classes) in enumerate(shown.tokens()) if "in-pass" in classes]
    assert pointed == list(range(PER_PASS, 2 * PER_PASS))
    assert shown.tab.text_content("#pass-details") == (
        'Pass 2: 3 tokens; 2 of 4 predictions accepted; from the draft; rejected: "é"; 1.00 ms waited, 3.00 ms computed'
    )
    shown.tab.mouse.move(1, 1)  # else it is over another token when the page scrolls
    shown.tab.focus("#strip")
    shown.tab.keyboard.press("ArrowRight")
    assert "after an alternate" in (shown.tab.text_content("#pass-details") or "")
    assert shown.tab.locator("#strip g").count() == -(-len(WHOLE) // PER_PASS)


def test_the_figures_are_those_of_the_passes(shown: ShownPage):
    num_passes = -(-len(WHOLE) // PER_PASS)
    assert (shown.tab.text_content("#per-pass") or "").startswith(f"{len(WHOLE) / num_passes:.2f}")
    assert "predictions" in (shown.tab.text_content("#acceptance") or "")
    assert "75 %" in (shown.tab.text_content("#waiting-plot") or ""), "of the time the target computes"


def test_a_chosen_token_shows_its_details(shown: ShownPage):
    shown.tab.locator(".token").first.click()
    assert f"id{WHOLE[0]}source" in (shown.tab.text_content("#token-details") or "")
    shown.tab.focus(".text")
    shown.tab.keyboard.press("ArrowRight")
    told = shown.tab.text_content("#token-details") or ""
    assert f"id{WHOLE[1]}source" in told
    assert f"{-WHOLE[1] / 7:.4f}" in told
    assert shown.tab.locator(".chosen").count() == 1


def test_keys_run_stop_and_find_the_prompt(show: Show):
    servers = ScriptedServer(Fault(at=6, how="hang"), servicer_type=PassesServicer)
    with servers as server, RunningGateway(server.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        shown.fill(seed=str(SEED))
        shown.begin(PROMPT)
        shown.tab.locator(".token").nth(5).wait_for(state="attached")
        shown.tab.keyboard.press("Escape")
        assert text_of(WHOLE, is_whole=True).startswith(shown.answer())
        assert shown.tab.text_content("#status") == "stopped"
        shown.tab.focus(".text")
        shown.tab.keyboard.press("/")
        assert shown.tab.evaluate("() => document.activeElement.id") == "prompt"


def test_without_the_target_s_admin_address_there_is_no_button(show: Show):
    servers = ScriptedServer(servicer_type=PassesServicer)
    with servers as server, RunningGateway(server.address, demo_controls="127.0.0.1:1") as gateway:
        shown = show(gateway.url)
        with shown.tab.expect_response("**/demo/draft") as asked:
            shown.open()
        assert asked.value.status == 503
        assert shown.ask(PROMPT)
        assert not shown.tab.is_visible("#draft-switch, #fault")
        shown.troubles = [trouble for trouble in shown.troubles if "503" not in trouble]


def test_only_the_pages_own_files_are_served(toy: RunningGateway):
    with httpx2.Client(base_url=toy.url, timeout=60) as client:
        index = client.get("/")
        assert "script-src 'self'" in index.headers["content-security-policy"]
        assert "unsafe" not in index.headers["content-security-policy"]
        assert client.get("/", headers={"if-none-match": index.headers["etag"]}).status_code == 304
        script = client.get("/page/script/main.js")
        assert script.headers["content-type"].startswith("text/javascript")
        for path in ("/page/page.py", "/page/../page.py", "/page/%2e%2e/page.py", "/page//etc/passwd", "/page/"):
            assert client.get(path).status_code == 404, path
        assert client.post("/demo/draft", json={}).status_code == 404
