"""OutputPipeline: which tokens are taken, what ends a generation, and what a continuation replays."""

import asyncio

import pytest

from services.engine.events import Failed, FinishReason, Progress, TokenRecord
from services.engine.request import Loop
from tests.harness.grammar.grammars import compiled
from tests.unit.consumer import Consumer
from tests.unit.sequences import (
    END,
    VOCAB_SIZE,
    byte_tokenizer,
    make_output,
    make_request,
    make_sequence,
    make_stream,
    records_of,
)


async def test_tokens_are_appended_and_delivered():
    consumer = Consumer(make_request(b"Hello", max_tokens=4))
    assert consumer.commit(b", y") == 3
    sequence = consumer.sequence
    assert bytes(sequence.tokens) == b"Hello, y"
    assert (sequence.num_prompt, sequence.num_generated, sequence.num_remaining) == (5, 3, 1)
    assert sequence.draw.sampling.num_generated == 3
    assert not sequence.is_finished
    consumer.commit(b"o")
    text, ids, end = await consumer.read()
    assert text == ", yo"
    assert bytes(ids) == b", yo"
    assert (end.prompt_tokens, end.completion_tokens) == (5, 4)


@pytest.mark.parametrize("at_once", [True, False])
async def test_max_tokens_is_exact(at_once):
    consumer = Consumer(make_request(max_tokens=3))
    for tokens in [b"abcdef"] if at_once else [b"a", b"b", b"c"]:
        taken = consumer.commit(tokens)
    assert taken == (3 if at_once else 1)
    assert consumer.sequence.num_remaining == 0
    text, ids, end = await consumer.read()
    assert (text, bytes(ids), end.reason) == ("abc", b"abc", FinishReason.MAX_TOKENS)
    assert (end.stop_string, end.stop_token_id) == (None, None)


async def test_a_full_context_ends_with_a_reason_of_its_own():
    consumer = Consumer(make_request(b"Hello", max_tokens=100), context_length=7)
    assert consumer.sequence.num_remaining == 2
    assert consumer.commit(b"abc") == 2
    _, ids, end = await consumer.read()
    assert (bytes(ids), end.reason) == (b"ab", FinishReason.CONTEXT_LENGTH)


async def test_max_tokens_comes_before_a_full_context():
    consumer = Consumer(make_request(b"Hello", max_tokens=2), context_length=7)
    consumer.commit(b"ab")
    assert (await consumer.read())[2].reason is FinishReason.MAX_TOKENS


@pytest.mark.parametrize("stop", [END, ord("!")])
async def test_a_stop_token_is_reported_but_not_shown(stop):
    consumer = Consumer(make_request(stop_ids=[END, ord("!")], max_tokens=3))
    assert consumer.commit([*b"ab", stop, *b"cd"]) == 3  # it wins over max_tokens, which the same token reaches
    text, ids, end = await consumer.read()
    assert (text, ids, end.reason) == ("ab", [*b"ab", stop], FinishReason.STOP_TOKEN)
    assert (end.stop_token_id, end.stop_string, end.completion_tokens) == (stop, None, 3)


async def test_an_end_token_that_is_ignored_is_a_token_like_any_other():
    consumer = Consumer(make_request(stop_ids=[], max_tokens=3))
    consumer.commit([ord("a"), END, ord("b")])
    text, ids, end = await consumer.read()
    assert (text, ids, end.reason) == ("ab", [ord("a"), END, ord("b")], FinishReason.MAX_TOKENS)


@pytest.mark.parametrize("step", [1, 2, 3, 8])
async def test_a_stop_string_never_leaks(step):
    consumer = Consumer(make_request(stop_strings=["END", "nothing"]))
    tokens = b"an EN, an END, more"
    for start in range(0, len(tokens), step):
        if not consumer.sequence.is_finished:
            consumer.commit(tokens[start : start + step])
    text, ids, end = await consumer.read()
    assert (text, bytes(ids), end.reason) == ("an EN, an ", b"an EN, an END", FinishReason.STOP_STRING)
    assert (end.stop_string, end.stop_token_id) == ("END", None)


async def test_held_text_is_released_with_the_last_token():
    consumer = Consumer(make_request(stop_strings=["END"], max_tokens=4))
    consumer.commit(b"a EN")
    text, _, end = await consumer.read()
    assert (text, end.reason) == ("a EN", FinishReason.MAX_TOKENS)


@pytest.mark.parametrize("min_tokens", [0, 3, 4])
async def test_min_tokens_keeps_stop_strings_from_ending_a_generation(min_tokens):
    """The first `min_tokens` tokens are not searched: as for stop tokens, the next one is the first that may stop."""
    consumer = Consumer(make_request(stop_strings=["!"], min_tokens=min_tokens, max_tokens=9))
    consumer.commit(b"abc!def!g")
    text, _, end = await consumer.read()
    expected = "abc!def" if min_tokens == 4 else "abc"
    assert (text, end.reason) == (expected, FinishReason.STOP_STRING)


async def test_text_is_never_a_broken_character():
    consumer = Consumer(make_request(max_tokens=9))
    tokens = "é東🚀".encode()
    reader = aiter(consumer.stream)
    texts = []
    for token_id in tokens[:-1]:
        consumer.commit([token_id])
        texts.append((await anext(reader)).text)
    assert "".join(texts) == "é東"
    assert all(text in {"", "é", "東"} for text in texts)


@pytest.mark.parametrize("cut", range(16))
@pytest.mark.parametrize("options", [{}, {"include_stop": True}, {"loop": Loop(window=3, repetitions=3)}])
async def test_a_continuation_starts_where_the_delivered_tokens_end(cut, options):
    """Replayed tokens count as generated, and what was held back at the cut is rebuilt."""
    tokens = "né 東 ...., END".encode() if "loop" in options else "né 東 EN, END".encode()
    whole = Consumer(make_request(stop_strings=["END"], max_tokens=20, **options))
    whole.commit(tokens)
    expected_text, expected_ids, expected_end = await whole.read()
    tokens = tokens[: len(expected_ids)]
    cut = min(cut, len(tokens))

    before = Consumer(make_request(stop_strings=["END"], max_tokens=20, **options))
    text = ""
    if cut:
        before.commit(tokens[:cut])
        text = (await anext(aiter(before.stream))).text
    after = Consumer(make_request(stop_strings=["END"], max_tokens=20, received=tokens[:cut], **options))
    assert after.sequence.num_generated == after.sequence.draw.sampling.num_generated == cut
    if after.sequence.is_finished:
        after.output.write()
    else:
        after.commit(tokens[cut:])
    rest, ids, end = await after.read()
    assert text + rest == expected_text
    assert [*tokens[:cut], *ids] == expected_ids
    assert (end.reason, end.stop_string) == (expected_end.reason, expected_end.stop_string)
    assert end.completion_tokens == expected_end.completion_tokens


@pytest.mark.parametrize(
    ("limits", "received", "reason"),
    [
        ({"max_tokens": 3}, b"abc", FinishReason.MAX_TOKENS),
        ({"stop_strings": ["c"]}, b"abc", FinishReason.STOP_STRING),
        ({}, [*b"ab", END], FinishReason.STOP_TOKEN),
    ],
)
async def test_received_tokens_that_reach_a_limit_leave_only_the_end(limits, received, reason):
    consumer = Consumer(make_request(received=received, **limits))
    assert consumer.sequence.end is reason
    consumer.output.write()
    text, ids, end = await consumer.read()
    assert (text, ids, end.reason, end.completion_tokens) == ("", [], reason, 3)


async def test_received_tokens_that_fill_the_context_end_the_sequence():
    consumer = Consumer(make_request(b"Hello", received=b"ab"), context_length=7)
    assert consumer.sequence.end is FinishReason.CONTEXT_LENGTH


@pytest.mark.parametrize(
    ("limits", "received"), [({"max_tokens": 3}, b"abcd"), ({"stop_strings": ["b"]}, b"abc"), ({}, [97, END, 98])]
)
async def test_received_tokens_beyond_the_end_are_refused(limits, received):
    with pytest.raises(ValueError, match=r"the generation ends after \d tokens, but \d were received"):
        make_output(make_request(received=received, **limits))


async def test_received_tokens_that_the_grammar_forbids_are_refused():
    grammar = compiled("choice", byte_tokenizer(), VOCAB_SIZE)
    sequence = make_sequence(make_request(received=b"yes,", grammar=grammar))
    assert sequence.draw.allowed.grammar.num_allowed(b" of course") == 10
    with pytest.raises(ValueError, match="the grammar forbids the token at 2"):
        make_output(make_request(received=b"yea", grammar=grammar))


async def test_tokens_drawn_with_a_wrong_mask_are_drawn_again():
    grammar = compiled("choice", byte_tokenizer(), VOCAB_SIZE)
    for num_right in (1, 2, 3):
        output = make_output(make_request(grammar=grammar))
        sequence = output.sequence
        masks = sequence.draw.allowed.grammar.masks(b"yes")
        masks[num_right:] ^= 1
        assert output.commit([TokenRecord(token_id) for token_id in b"yes"]) == num_right
        assert sequence.tokens[sequence.num_prompt :] == [*b"yes"[:num_right]]
        assert sequence.draw.allowed.grammar.num_followed == num_right


async def test_a_stop_token_is_not_part_of_the_grammar():
    grammar = compiled("choice", byte_tokenizer(), VOCAB_SIZE)
    consumer = Consumer(make_request(received=b"yes", grammar=grammar))
    consumer.commit([END])
    state = consumer.sequence.draw.allowed.grammar
    assert (state.num_followed, state.is_rejected) == (3, False)
    assert (await consumer.read())[2].reason is FinishReason.STOP_TOKEN


async def test_progress_counts_prompt_and_received_tokens():
    consumer = Consumer(make_request(b"Hello", received=b"abc"))
    consumer.sequence.text.num_computed = 6
    consumer.output.report_progress()
    assert await anext(aiter(consumer.stream)) == Progress(6, 8)


async def test_no_progress_is_sent_once_there_is_a_token():
    """A preempted sequence is computed anew, which its reader need not see."""
    consumer = Consumer(make_request(b"Hello", max_tokens=2))
    consumer.commit(b"a")
    consumer.sequence.text.num_computed = 4
    consumer.output.report_progress()
    consumer.commit(b"b")
    assert (await consumer.read())[0] == "ab"


async def test_a_failure_is_delivered_after_the_tokens_drawn():
    consumer = Consumer(make_request())
    consumer.commit(b"ab")
    consumer.stream.put(Failed("the engine has failed"))
    chunk, failure = [event async for event in consumer.stream]
    assert (chunk.text, failure) == ("ab", Failed("the engine has failed"))


async def test_a_sequence_is_paused_while_its_stream_is_full():
    stream = make_stream(capacity=2)
    output = make_output(make_request(), stream)
    sequence = output.sequence
    for token, is_paused in (b"a", False), (b"b", True):
        output.commit(records_of(token))
        output.write()
        assert sequence.is_paused == is_paused
    await anext(aiter(stream))
    assert not sequence.is_paused


async def test_times_are_in_order():
    consumer = Consumer(make_request(max_tokens=2))
    consumer.commit(b"a")
    await asyncio.sleep(0)
    first_token = consumer.sequence.timings.prefilled
    consumer.commit(b"b")
    timings = (await consumer.read())[2].timings
    assert timings.arrived <= timings.prefilled == first_token <= timings.finished
