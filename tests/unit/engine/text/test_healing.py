"""Which tokens may replace a prompt's last one, and how a generation continues from the one drawn."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.events import Chunk, FinishReason, Progress, Refused
from services.engine.text.healing import Healing, plan_healing
from services.engine.text.tokenizer import Tokenizer
from tests.harness.models.checkpoints import VOCAB_SIZE, byte_level_tokenizer
from tests.unit.sequences import make_output, make_request, make_stream, records_of

TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())
END = 1
HEALING = Healing(num_known=0, masked_ids=(1, 2))  # of a vocabulary of bytes, whose tokens begin with nothing but all


@given(st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=3))
def test_only_tokens_that_begin_as_the_last_one_are_allowed(prompt: list[int]):
    healing = plan_healing(prompt, TOKENIZER, vocab_size=VOCAB_SIZE)
    known = TOKENIZER.token_bytes(prompt[-1])
    allowed = {
        token_id
        for token_id in range(TOKENIZER.vocab_size)
        if not TOKENIZER.is_special(token_id) and TOKENIZER.token_bytes(token_id)[: len(known)] == known
    }
    if len(prompt) == 1 or not known or TOKENIZER.is_special(prompt[-1]) or len(allowed) == 1:
        assert healing is None
    else:
        assert healing == Healing(num_known=len(known), masked_ids=tuple(sorted({*range(VOCAB_SIZE)} - allowed)))


def test_a_special_token_never_heals_text():
    (last,) = TOKENIZER.encode("<", add_special_tokens=False)
    healing = plan_healing([5, last], TOKENIZER, vocab_size=VOCAB_SIZE)
    assert healing is None or END in healing.masked_ids


# OutputPipeline


def commit(output, records):
    num_kept = output.commit(records)
    output.write()
    return num_kept


async def test_the_healed_token_is_the_prompts():
    stream = make_stream()
    output = make_output(make_request(b"Hel", healing=HEALING, max_tokens=2), stream)
    sequence = output.sequence
    assert sequence.is_healing
    assert (bytes(sequence.tokens), sequence.num_generated, sequence.num_pending) == (b"He", 0, 2)
    assert commit(output, records_of(b"p!")) == 0
    assert not sequence.is_healing
    assert (bytes(sequence.tokens), sequence.num_generated, sequence.num_remaining) == (b"Hep", 0, 2)
    assert sequence.draw.sampling.num_generated == 0
    assert commit(output, records_of(b"xyz")) == 2
    chunk, end = [event async for event in stream]
    assert (chunk.text, [record.token_id for record in chunk.records]) == ("pxy", [*b"xy"])
    assert (end.reason, end.prompt_tokens, end.completion_tokens) == (FinishReason.MAX_TOKENS, 3, 2)


@pytest.mark.parametrize(("num_known", "text"), [(0, "é!"), (1, "\ufffd!")])
async def test_only_the_bytes_beyond_the_known_ones_are_shown(num_known, text):
    first, second = "é".encode()
    stream = make_stream()
    healing = Healing(num_known=num_known, masked_ids=())
    output = make_output(make_request(b"Hel", healing=healing, max_tokens=2), stream)
    commit(output, records_of([first]))
    commit(output, records_of([second, ord("!")]))
    assert (await anext(aiter(stream))).text == text


@pytest.mark.parametrize("cut", range(6))
async def test_a_continuation_replays_after_the_prompt_is_healed(cut):
    """The healed token is drawn again, which by the rule gives the same one."""
    whole = make_stream()
    output = make_output(make_request(b"Hel", healing=HEALING, max_tokens=5, stop_strings=["END"]), whole)
    commit(output, records_of(b"p"))
    commit(output, records_of(b"a EN!"))
    *_, end = [event async for event in whole]

    text = ""
    if cut:
        before = make_stream()
        output = make_output(make_request(b"Hel", healing=HEALING, max_tokens=5, stop_strings=["END"]), before)
        commit(output, records_of(b"p"))
        commit(output, records_of(b"a EN!"[:cut]))
        text = (await anext(aiter(before))).text
    after = make_stream()
    received = b"a EN!"[:cut]
    request = make_request(b"Hel", healing=HEALING, received=received, max_tokens=5, stop_strings=["END"])
    output = make_output(request, after)
    sequence = output.sequence
    assert (sequence.num_generated, sequence.is_finished) == (cut, False)
    output.report_progress()
    assert await anext(aiter(after)) == Progress(0, 3 + cut)
    assert commit(output, records_of(b"p")) == 0
    assert bytes(sequence.tokens) == b"Hep" + received
    if not sequence.is_finished:
        commit(output, records_of(b"a EN!"[cut:]))
    *chunks, last = [event async for event in after]
    assert text + "".join(chunk.text for chunk in chunks) == "pa EN!"
    assert (last.reason, last.completion_tokens) == (end.reason, end.completion_tokens) == (FinishReason.MAX_TOKENS, 5)


async def test_received_tokens_beyond_the_end_are_refused_when_known():
    stream = make_stream()
    request = make_request(b"Hel", healing=HEALING, received=b"abc", stop_strings=["pa"])
    output = make_output(request, stream)
    sequence = output.sequence
    commit(output, records_of(b"p"))
    assert sequence.is_finished
    assert [event async for event in stream] == [Refused("the generation ends after 1 tokens, but 3 were received")]


async def test_an_end_during_healing_counts_received_tokens():
    stream = make_stream()
    output = make_output(make_request(b"Hel", healing=HEALING, received=b"abc"), stream)
    output.finish(FinishReason.DEADLINE)
    output.write()
    (end,) = [event async for event in stream]
    assert (end.text, end.prompt_tokens, end.completion_tokens) == ("", 3, 3)


async def test_a_stop_string_in_the_healed_part_ends_the_text_there():
    stream = make_stream()
    output = make_output(make_request(b"Hel", healing=HEALING, stop_strings=["p"]), stream)
    sequence = output.sequence
    commit(output, records_of(b"p"))
    assert not sequence.is_finished, "no token of the answer has come yet"
    commit(output, records_of(b"abc"))
    await asyncio.sleep(0)
    chunk, end = [event async for event in stream]
    assert chunk == Chunk("", tuple(records_of(b"a")))
    assert (end.reason, end.stop_string) == (FinishReason.STOP_STRING, "p")
