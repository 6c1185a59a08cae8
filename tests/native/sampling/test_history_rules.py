"""Rules on the tokens so far: which tokens may not follow them, and which of them the penalties count."""

import random
from collections import Counter
from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from services.engine.decoder.native import Device, Sampler
from services.engine.decoder.native.testing import make_logits
from tests.native.harness.devices import DEVICES, make_device
from tests.native.harness.sampling_reference import Settings, random_logits, record_of, reported_logprobs
from tests.native.harness.sampling_reference import sample as sample_on_cpu

VOCAB = 12
ASKED = Settings(logprobs=True, num_candidates=VOCAB)
RULES = {
    "no token twice": Settings(no_repeat_ngram_size=1),
    "no pair twice": Settings(no_repeat_ngram_size=2),
    "no run of four twice": Settings(no_repeat_ngram_size=4),
    "runs beyond the history": Settings(no_repeat_ngram_size=2**31 - 1),
    "bad words": Settings(bad_words=((3,), (1, 2), (2, 2, 1), (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0))),
    "suppressed": Settings(suppressed_ids=(4, 7)),
    "suppressed first": Settings(begin_suppressed_ids=(4, 7)),
    "all": Settings(no_repeat_ngram_size=3, bad_words=((1, 2),), suppressed_ids=(5,), begin_suppressed_ids=(6,)),
}


def forbidden(settings: Settings, prompt: Seq[int], generated: Seq[int]) -> set[int]:
    """transformers: NoRepeatNGramLogitsProcessor, NoBadWordsLogitsProcessor, SuppressTokens(AtBegin)LogitsProcessor."""
    tokens, size = [*prompt, *generated], settings.no_repeat_ngram_size
    found = {*settings.suppressed_ids, *(() if generated else settings.begin_suppressed_ids)}
    if 0 < size <= len(tokens) + 1:
        runs = [tokens[first : first + size] for first in range(len(tokens) - size + 1)]
        found |= {run[-1] for run in runs if run[:-1] == tokens[len(tokens) - size + 1 :]}
    return found | {word[-1] for word in settings.bad_words if [*word[:-1]] == tokens[len(tokens) - len(word) + 1 :]}


def histories(count: int) -> list[tuple[list[int], list[int], list[int]]]:
    """Prompts, what is generated and predictions, of few tokens that repeat."""
    rng = random.Random(7)
    return [
        tuple(rng.choices(range(rng.choice((2, 4, VOCAB))), k=rng.randrange(low, 9)) for low in (1, 0, 0))  # type: ignore[misc]
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", RULES)
def test_forbidden_continuations_are_never_drawn(name: str) -> None:
    for prompt, generated, predictions in histories(60):
        state = replace(ASKED, **{key: value for key, value in vars(RULES[name]).items() if value}).state(
            prompt, generated
        )
        logits = random_logits(len(predictions) + 1, VOCAB)
        samples = sample_on_cpu(logits, [state], [predictions])
        for row in range(len(predictions) + 1):
            left = {*range(VOCAB)} - forbidden(RULES[name], prompt, [*generated, *predictions[:row]])
            assert {token_id for token_id, _, _ in samples.candidates(row)} == left
            assert bool(left) == (samples.status[row] == 0)


def test_truncated_tokens_leave_no_trace() -> None:
    settings = replace(ASKED, no_repeat_ngram_size=2, bad_words=((1, 2),))
    logits = random_logits(1, VOCAB)
    for prompt, generated, others in histories(30):
        state = settings.state(prompt, generated)
        state.truncate(len(generated) // 2)
        state.commit(others)
        expected = settings.state(prompt, [*generated[: len(generated) // 2], *others])
        assert record_of(sample_on_cpu(logits, [state]), 0) == record_of(sample_on_cpu(logits, [expected]), 0)


@pytest.mark.parametrize("last_n", [1, 3, 8, 1000])
def test_penalties_count_the_last_tokens(last_n: int) -> None:
    """llama.cpp: penalty_last_n; what was generated is counted as ever, and the prompt by the repetition alone."""
    settings = Settings(repetition_penalty=1.4, frequency_penalty=0.3, presence_penalty=0.2, penalty_last_n=last_n)
    for prompt, generated, predictions in histories(40):
        state = replace(settings, temperature=0.0, num_candidates=VOCAB).state(prompt, generated)
        logits = random_logits(len(predictions) + 1, VOCAB)
        samples = sample_on_cpu(logits, [state], [predictions])
        for row in range(len(predictions) + 1):
            drawn = [*generated, *predictions[:row]]
            seen, counts = {*[*prompt, *drawn][-last_n:]}, Counter(drawn[-last_n:])
            expected = logits[row].astype(np.float64)
            for token_id in seen:
                expected[token_id] *= 1 / 1.4 if expected[token_id] > 0 else 1.4
                expected[token_id] -= 0.3 * counts[token_id] + 0.2 * (counts[token_id] > 0)
            expected -= np.log(np.exp(expected).sum())
            assert np.allclose(reported_logprobs(samples, row, VOCAB), expected, rtol=0, atol=1e-5)


def faded(settings: Settings, prompt: Seq[int], drawn: Seq[int], logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """exllamav2: apply_rep_penalty_cpu, with the answer alone counted by frequency and presence.  # [vocab]"""
    result, seen, present = logits.astype(np.float64), set[int](), set[int]()
    repetition, part, decay = settings.repetition_penalty, 1.0, settings.penalty_decay
    tokens, left = [*prompt, *drawn], settings.penalty_last_n
    for place in reversed(range(max(0, len(tokens) - left - decay), len(tokens))):
        token_id = tokens[place]
        if token_id not in seen:
            result[token_id] *= 1 / repetition if logits[token_id] > 0 else repetition
        if place >= len(prompt):
            new = token_id not in present
            result[token_id] -= part * (settings.frequency_penalty + settings.presence_penalty * new)
            present.add(token_id)
        seen.add(token_id)
        left -= 1
        if left < 0:
            repetition += (1 - settings.repetition_penalty) / max(decay, 1)
            part -= 1 / max(decay, 1)
    return result


@pytest.mark.parametrize(("last_n", "decay"), [(1, 1), (1, 6), (3, 4), (8, 3), (3, 2**31 - 1), (2**31 - 1, 2**31 - 1)])
def test_penalties_fade_before_the_last_tokens(last_n: int, decay: int) -> None:
    settings = Settings(repetition_penalty=1.4, frequency_penalty=0.3, presence_penalty=0.2, penalty_last_n=last_n)
    told = replace(settings, penalty_decay=decay, temperature=0.0, num_candidates=VOCAB)
    for prompt, generated, predictions in histories(40):
        logits = random_logits(len(predictions) + 1, VOCAB)
        samples = sample_on_cpu(logits, [told.state(prompt, generated)], [predictions])
        for row in range(len(predictions) + 1):
            expected = faded(told, prompt, [*generated, *predictions[:row]], logits[row])
            expected -= np.log(np.exp(expected).sum())
            assert np.allclose(reported_logprobs(samples, row, VOCAB), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("device_name", [name for name in DEVICES if name.startswith("cuda")])
def test_every_device_draws_the_same(device_name: str) -> None:
    device: Device = make_device(device_name, threads=1)
    windowed = Settings(repetition_penalty=1.4, frequency_penalty=0.3, presence_penalty=0.2, penalty_last_n=3)
    rules = [*RULES.values(), *DRY.values(), windowed, replace(windowed, penalty_decay=4)]
    settings = [replace(each, seed=seed, logprobs=True, num_candidates=5) for seed, each in enumerate(rules * 3)]
    parts = histories(len(settings))
    states = [each.state(*part[:2]) for each, part in zip(settings, parts, strict=True)]
    predictions = [part[2] for part in parts]
    logits = random_logits(sum(1 + len(each) for each in predictions), VOCAB)
    expected = sample_on_cpu(logits, states, predictions)
    samples = Sampler(device).sample(make_logits(device, logits), states, predictions)
    assert [record_of(samples, row) for row in range(len(logits))] == [
        record_of(expected, row) for row in range(len(logits))
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("penalty_last_n", -1),
        ("penalty_decay", -1),
        ("no_repeat_ngram_size", -1),
        ("bad_words", ((1,), ())),
        ("bad_words", ((-1,),)),
    ],
)
def test_a_bad_rule_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{field}|negative"):
        replace(Settings(), **{field: value}).state()


def dry_penalties(settings: Settings, tokens: Seq[int]) -> dict[int, float]:
    """llama.cpp: llama_sampler_dry, by comparing each place with the end of the text, token by token."""
    window = [*tokens][-settings.dry_penalty_last_n :] if settings.dry_penalty_last_n else [*tokens]
    breakers, longest = settings.dry_breaker_ids, Counter[int]()
    for place in range(1, len(window)):
        length = 0
        while length < place and window[place - 1 - length] == window[-1 - length] not in breakers:
            length += 1
        if length >= max(settings.dry_allowed_length, 1) and window[place] not in breakers:
            longest[window[place]] = max(longest[window[place]], length)
    return {
        token_id: settings.dry_multiplier * settings.dry_base ** (length - settings.dry_allowed_length)
        for token_id, length in longest.items()
    }


DRY = {
    "plain": Settings(dry_multiplier=0.8),
    "of any length": Settings(dry_multiplier=0.3, dry_base=1.2, dry_allowed_length=0),
    "of four": Settings(dry_multiplier=2.0, dry_allowed_length=4),
    "of the last six": Settings(dry_multiplier=0.8, dry_allowed_length=1, dry_penalty_last_n=6),
    "not across breakers": Settings(dry_multiplier=0.8, dry_allowed_length=1, dry_breaker_ids=(0, 3)),
    "beside others": Settings(dry_multiplier=0.8, no_repeat_ngram_size=4, logit_bias=((1, 1.0), (2, -1.0))),
}


@pytest.mark.parametrize("name", DRY)
def test_a_repetition_is_penalised_by_its_length(name: str) -> None:
    for prompt, generated, predictions in histories(60):
        settings = replace(DRY[name], temperature=0.0, num_candidates=VOCAB)
        logits = random_logits(len(predictions) + 1, VOCAB)
        samples = sample_on_cpu(logits, [settings.state(prompt, generated)], [predictions])
        for row in range(len(predictions) + 1):
            drawn = [*generated, *predictions[:row]]
            expected = logits[row].astype(np.float64)
            for token_id, penalty in dry_penalties(DRY[name], [*prompt, *drawn]).items():
                expected[token_id] -= penalty
            for token_id, bias in DRY[name].logit_bias:
                expected[token_id] += bias
            expected[[*forbidden(DRY[name], prompt, drawn)]] = -np.inf
            expected -= np.log(np.exp(expected).sum())
            assert np.allclose(reported_logprobs(samples, row, VOCAB), expected, rtol=0, atol=1e-5)


def test_the_dry_penalty_stops_growing_64_tokens_past_allowed() -> None:
    logits = np.zeros((1, VOCAB), np.float32)
    settings = Settings(temperature=0.0, num_candidates=VOCAB, dry_multiplier=1.0, dry_base=1.01)
    longest, longer = (
        reported_logprobs(sample_on_cpu(logits, [settings.state([1] * length)], [[]]), 0, VOCAB)[1]
        for length in (67, 500)
    )
    assert longest == longer < 0
