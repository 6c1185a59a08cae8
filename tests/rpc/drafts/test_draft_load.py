"""A draft reports its load: to every target in its hello, and later to those that ask for it."""

from services.engine.decoder.native import BLOCK_SIZE
from tests.rpc.harness.draft_link import NUM_BLOCKS, PROMPT, Link, RunningDraft, hello_of


def load_of(link: Link) -> tuple[int, int]:
    message = link.next()
    assert message.WhichOneof("message") == "load", message
    return message.load.other_sequences, message.load.free_tokens


def test_a_hello_reports_the_sequences_of_other_links(draft: RunningDraft, link: Link) -> None:
    link.begin(PROMPT, 2)
    link.predictions(2, position=len(PROMPT))
    another = Link(draft, **hello_of(draft))
    load = another.next().hello.load
    another.close()
    assert (load.other_sequences, load.free_tokens) == (1, (NUM_BLOCKS - 1) * BLOCK_SIZE)


def test_a_target_that_asks_hears_of_changes(draft: RunningDraft, link: Link) -> None:
    listener = Link(draft, **hello_of(draft), hears_load=True)
    assert listener.next().hello.load.other_sequences == 0
    assert load_of(listener) == (0, NUM_BLOCKS * BLOCK_SIZE)
    link.begin(PROMPT, 2)
    link.predictions(2, position=len(PROMPT))
    assert load_of(listener)[0] == 1
    link.send(close={"sequence_id": 1})
    while load_of(listener) != (0, NUM_BLOCKS * BLOCK_SIZE):
        pass
    listener.close()


def test_a_target_that_does_not_ask_hears_of_nothing(draft: RunningDraft, link: Link) -> None:
    another = Link(draft, **hello_of(draft))
    another.next()
    another.begin(PROMPT, 2)
    another.predictions(2, position=len(PROMPT))
    another.close()
    link.assert_silent()
