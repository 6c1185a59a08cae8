"""Limits of a pass: in any mix, no batch exceeds one, every sequence advances, and all blocks are freed."""

import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.events import PredictionSource
from services.engine.request import CachePolicy, SpeculationMode, SpeculationPolicy
from services.target.scheduling.limits import SchedulerConfig
from tests.harness.further import further
from tests.unit.crowded_target import BLOCK_SIZE, Guesser, run
from tests.unit.sequences import AUTO


@pytest.mark.parametrize(
    ("max_rows", "max_sequences", "num_requests", "num_samples", "chance"),
    [
        *((20, 12, 1, 12, 0.9), (40, 32, 32, 1, 0.0), (64, 64, 4, 16, 0.9)),
        *(further(20, 12, 1, 12, 0.0), further(40, 32, 32, 1, 0.9), further(64, 64, 4, 16, 0.0)),
    ],
)
async def test_a_crowd_that_leaves_few_rows_for_predictions(max_rows, max_sequences, num_requests, num_samples, chance):
    random = Random(1)
    requests = [
        {"prompt": bytes([index]) * 9, "max_tokens": 30 + index, "speculation": AUTO, "num_samples": num_samples}
        for index in range(num_requests)
    ]
    draft = Guesser(random, PredictionSource.DRAFT, chance=chance)
    limits = SchedulerConfig(max_rows=max_rows, prefill_chunk=8, max_sequences=max_sequences)
    await run(limits, requests, random, num_blocks=3000, context_length=256, predictors=[draft])


REQUESTS = st.fixed_dictionaries(
    {
        "prompt": st.one_of(st.binary(min_size=1, max_size=40), st.sampled_from([b"the same", b"the same again"])),
        "max_tokens": st.integers(1, 120),
        "cache": st.sampled_from([CachePolicy(), CachePolicy(), CachePolicy(prefix=False)]),
        "num_samples": st.sampled_from([1, 1, 1, 4]),
        "prompt_logprobs": st.booleans(),
        "speculation": st.one_of(
            st.just(AUTO),
            st.builds(
                SpeculationPolicy,
                mode=st.sampled_from(SpeculationMode),
                num_predictions=st.one_of(st.none(), st.integers(0, 40)),
            ),
        ),
    }
)
GUESSERS = st.lists(
    st.fixed_dictionaries(
        {
            "chance": st.sampled_from([0.0, 0.5, 0.95]),
            "more": st.sampled_from([-20, 0, 9]),
            "wait": st.sampled_from([0.0, 1000.0]),
        }
    ),
    max_size=3,
)


@settings(max_examples=10, derandomize=True, database=None)
@given(
    max_sequences=st.integers(1, 12),
    spare_rows=st.integers(0, 24),
    prefill_chunk=st.integers(1, 32),
    num_blocks=st.integers(1, 60),
    guessers=GUESSERS,
    seconds_per_row=st.sampled_from([0.001, 0.05, 0.3]),
    capacity=st.sampled_from([3, 1 << 20]),
    most_lag=st.sampled_from([0, 12]),
    impatience=st.sampled_from([0.0, 0.003]),
    requests=st.lists(REQUESTS, min_size=1, max_size=14),
    seed=st.integers(0, 2**32),
)
def test_no_pass_exceeds_a_limit(
    max_sequences, spare_rows, prefill_chunk, num_blocks, guessers, requests, seed, **circumstances
):
    random = Random(seed)
    limits = SchedulerConfig(
        max_rows=max_sequences + spare_rows, prefill_chunk=prefill_chunk, max_sequences=max_sequences
    )
    context_length = min(num_blocks * BLOCK_SIZE, 160)
    for options in requests:
        options["prompt"] = options["prompt"][: context_length - 1]
    predictors = [
        Guesser(random, source, **guesser) for source, guesser in zip([*PredictionSource] * 2, guessers, strict=False)
    ]
    asyncio.run(
        run(
            limits,
            requests,
            random,
            num_blocks=num_blocks,
            context_length=context_length,
            predictors=predictors,
            **circumstances,
        )
    )
