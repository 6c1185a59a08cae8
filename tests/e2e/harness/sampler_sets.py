"""Sampler sets: random combinations of what tokens are drawn by, and few of them that have every two parameters."""

import itertools
import random
from collections.abc import Iterable, Mapping
from typing import Any

from outrider.v1 import common_pb2
from services.engine.allowed_tokens import AllowedTokens
from services.engine.sampling_params import SAMPLING_NUMBERS
from tests.harness.models.checkpoints import VOCAB_SIZE

SamplerSet = Mapping[str, Any]

NUM_SETS = 200
_SAMPLERS = [name.removeprefix("SAMPLER_").lower() for name, number in common_pb2.Sampler.items() if number]
_OPTIONS = {
    "suppressed_ids": "suppress_token_ids",
    "begin_suppressed_ids": "begin_suppress_token_ids",
    "bad_words": "bad_words_ids",
}
_SHARE_ON = 0.3  # of the parameters, in a set
_VALUES: dict[str, list[Any]] = {
    "temperature": [0.0, 0.6, 1.4],
    "top_k": [3, 60],
    "top_p": [0.3, 0.95],
    "min_p": [0.02, 0.3],
    "top_n_sigma": [0.8, 2.5],
    "smoothing_factor": [0.2, 1.5],
    "smoothing_curve": [1.7, 3.0],
    "dynatemp_range": [0.4, 2.0],
    "dynatemp_exponent": [0.5, 2.0],
    "top_a": [0.1, 0.8],
    "tfs_z": [0.5, 0.97],
    "typical_p": [0.4, 0.95],
    "epsilon_cutoff": [0.0005, 0.01],
    "eta_cutoff": [0.0005, 0.01],
    "xtc_probability": [0.3, 1.0],
    "xtc_threshold": [0.01, 0.3],
    "skew": [-0.4, 0.7],
    "mirostat_mode": [1, 2],
    "mirostat_tau": [1.0, 3.0],
    "mirostat_eta": [0.05, 0.7],
    "adaptive_target": [0.0, 0.3, 0.9],
    "adaptive_decay": [0.3, 0.95],
    "repetition_penalty": [0.8, 1.3],
    "frequency_penalty": [-0.5, 0.8],
    "presence_penalty": [-0.5, 0.8],
    "penalty_last_n": [3, 20],
    "penalty_decay": [2, 30],
    "no_repeat_ngram_size": [1, 3],
    "dry_multiplier": [0.5, 3.0],
    "dry_base": [1.2, 2.5],
    "dry_allowed_length": [1, 3],
    "dry_penalty_last_n": [4, 30],
    "dry_breaker_ids": [(60,), tuple(range(100, 130))],
    "suppressed_ids": [(5,), tuple(range(200, 300))],
    "begin_suppressed_ids": [(7,), tuple(range(300, 400))],
    "bad_words": [((20,), (45, 46)), tuple((token_id,) for token_id in range(150, 200))],
    "logit_bias": [{20: 3.0, 46: float("-inf")}, dict.fromkeys(range(64, 96), 2.0)],
    "banned_strings": [("e",), ("a", "t")],
    "allowed_tokens": [AllowedTokens.of(range(40, 440), vocab_size=VOCAB_SIZE)],
}
_APART = [  # which a request has not both of
    ("mirostat_mode", "adaptive_target"),
    ("mirostat_mode", "banned_strings"),
    ("adaptive_target", "banned_strings"),
]


def sampler_set(index: int) -> SamplerSet:
    """One of them: fields of SamplingParams, always the same."""
    rng = random.Random(f"sampler set {index}")
    chosen = {name: rng.choice(values) for name, values in _VALUES.items() if rng.random() < _SHARE_ON}
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
    return pairs_of([*_VALUES, "samplers"]) - {(min(pair), max(pair)) for pair in _APART}


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
    """The numbers of SamplingParams that no set has: whoever adds one has to give values of it."""
    return {number.name for number in SAMPLING_NUMBERS} - _VALUES.keys()
