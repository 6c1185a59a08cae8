"""Sampler sets: random combinations of what tokens are drawn by, and few of them that have every two parameters."""

import itertools
import random
from collections.abc import Iterable, Mapping
from typing import Any

from outrider.v1 import common_pb2
from services.engine.sampling_params import SAMPLING_NUMBERS
from tests.harness.models.checkpoints import VOCAB_SIZE
from tests.rpc.harness.sampler_examples import SET_VALUES

SamplerSet = Mapping[str, Any]

NUM_SETS = 200
_SAMPLERS = [name.removeprefix("SAMPLER_").lower() for name, number in common_pb2.Sampler.items() if number]
_OPTIONS = {
    "suppressed_ids": "suppress_token_ids",
    "begin_suppressed_ids": "begin_suppress_token_ids",
    "bad_words": "bad_words_ids",
}
_SHARE_ON = 0.3  # of the parameters, in a set
_APART = [  # which a request has not both of
    ("mirostat_mode", "adaptive_target"),
    ("mirostat_mode", "banned_strings"),
    ("adaptive_target", "banned_strings"),
]


def sampler_set(index: int) -> SamplerSet:
    """One of them: fields of SamplingParams, always the same."""
    rng = random.Random(f"sampler set {index}")
    chosen = {name: rng.choice(values) for name, values in SET_VALUES.items() if rng.random() < _SHARE_ON}
    for pair in _APART:
        if chosen.keys() >= {*pair}:
            del chosen[rng.choice(pair)]
    if rng.random() < _SHARE_ON:
        chosen["samplers"] = tuple(rng.sample(_SAMPLERS, rng.randrange(1, 1 + len(_SAMPLERS))))
    return {"seed": index, **chosen}


def options_of(chosen: SamplerSet) -> dict[str, Any]:
    """The same as options of the client, which has strings for what no repetition goes across, and ids for a mask."""
    options = {_OPTIONS.get(name, name): value for name, value in chosen.items() if name != "dry_breaker_ids"}
    if (allowed := options.pop("allowed_tokens", None)) is not None:
        options["allowed_token_ids"] = [token_id for token_id in range(VOCAB_SIZE) if token_id in allowed]
    return options


def all_pairs() -> set[tuple[str, str]]:
    """Every two parameters that a set may have."""
    return pairs_of([*SET_VALUES, "samplers"]) - {(min(pair), max(pair)) for pair in _APART}


def pairs_of(names: Iterable[str]) -> set[tuple[str, str]]:
    """Every two of some parameters."""
    return {(one, other) for one, other in itertools.combinations(sorted({*names} - {"seed"}), 2)}


def covering_sets() -> list[int]:
    """Few of the sets that have every pair which any of them has, the one with most that are new first."""
    pairs = {index: pairs_of(sampler_set(index)) for index in range(NUM_SETS)}
    missing, found = set[tuple[str, str]]().union(*pairs.values()), list[int]()
    while missing:
        best = max(pairs, key=lambda index: (len(pairs[index] & missing), -index))
        found.append(best)
        missing -= pairs[best]
    return found


def unknown_numbers() -> set[str]:
    """The numbers of SamplingParams that no set has: a new one needs values here."""
    return {number.name for number in SAMPLING_NUMBERS} - SET_VALUES.keys()
