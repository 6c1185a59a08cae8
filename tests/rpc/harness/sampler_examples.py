"""Good and bad values of the samplers, for the tests of every field, of bad input and of random sets of parameters."""

from typing import Any

from outrider.v1 import common_pb2
from services.engine.allowed_tokens import AllowedTokens
from tests.harness.models.checkpoints import VOCAB_SIZE
from tests.rpc.harness.field_examples import COUNT, OFTEN, Good, X, drawn_with, is_certain

_LONG = {"stop": {"max_tokens": 24}}
GOOD_SAMPLERS = {
    "sampling.top_n_sigma": Good(drawn_with(top_n_sigma=1e-6), is_certain),
    "sampling.smoothing_factor": Good(drawn_with(smoothing_factor=5.0), lambda seen: seen.is_shifted),
    "sampling.smoothing_curve": Good(
        drawn_with(smoothing_factor=0.5, smoothing_curve=3.0), lambda seen: seen.is_shifted
    ),
    "sampling.dynatemp_range": Good(drawn_with(dynatemp_range=0.9), lambda seen: seen.is_shifted),
    "sampling.dynatemp_exponent": Good(
        drawn_with(dynatemp_range=0.9, dynatemp_exponent=9.0), lambda seen: seen.is_shifted
    ),
    "sampling.top_a": Good(drawn_with(top_a=1.0, logit_bias=[{"token_id": X, "bias": 30.0}]), is_certain),
    "sampling.tfs_z": Good(drawn_with(tfs_z=1e-9), is_certain),
    "sampling.typical_p": Good(drawn_with(typical_p=1e-6), is_certain),
    "sampling.epsilon_cutoff": Good(drawn_with(epsilon_cutoff=1.0), is_certain),
    "sampling.eta_cutoff": Good(drawn_with(eta_cutoff=1.0), lambda seen: seen.is_shifted),
    "sampling.xtc_probability": Good(drawn_with(xtc_probability=1.0, xtc_threshold=0.0), is_certain),
    "sampling.xtc_threshold": Good(drawn_with(xtc_probability=1.0, xtc_threshold=0.001), lambda seen: seen.is_shifted),
    "sampling.skew": Good(drawn_with(skew=2.0), lambda seen: seen.is_shifted),
    "sampling.mirostat_mode": Good(drawn_with(mirostat_mode=2, mirostat_tau=0.0), lambda seen: seen.is_shifted),
    "sampling.mirostat_tau": Good(drawn_with(mirostat_mode=1, mirostat_tau=0.0), is_certain),
    "sampling.mirostat_eta": Good(
        drawn_with(mirostat_mode=2, mirostat_tau=1.0, mirostat_eta=9.0), lambda seen: seen.is_shifted
    ),
    "sampling.adaptive_target": Good(drawn_with(adaptive_target=0.9), lambda seen: seen.is_shifted),
    "sampling.adaptive_decay": Good(drawn_with(adaptive_target=0.3, adaptive_decay=0.0), lambda seen: seen.is_shifted),
    "sampling.samplers": Good(
        drawn_with(top_k=1, samplers=[common_pb2.SAMPLER_TEMPERATURE]),
        lambda seen: len(seen.streamed.records) == COUNT and not seen.is_shifted,
    ),
    "sampling.penalty_last_n": Good(
        drawn_with(penalty_last_n=1, frequency_penalty=2.0, logit_bias=[{"token_id": X, "bias": 36.0}]) | _LONG,
        lambda seen: seen.ids == [X] * 24,  # without it, they would add up to 46 at the last one
    ),
    "sampling.penalty_decay": Good(
        drawn_with(
            penalty_last_n=1, penalty_decay=1000, frequency_penalty=2.0, logit_bias=[{"token_id": X, "bias": 36.0}]
        )
        | _LONG,
        lambda seen: {*seen.ids} > {X},  # with those of the window alone, nothing else is drawn
    ),
    "sampling.no_repeat_ngram_size": Good(
        {"sampling": {**OFTEN, "no_repeat_ngram_size": 3}},
        lambda seen: sum(seen.ids[place : place + 3] == [X, X, X] for place in range(COUNT)) == 1,
    ),
    "sampling.suppress_token_ids": Good(
        {"sampling": {**OFTEN, "suppress_token_ids": [X]}}, lambda seen: X not in seen.ids
    ),
    "sampling.begin_suppress_token_ids": Good(
        {"sampling": {**OFTEN, "begin_suppress_token_ids": [X]}}, lambda seen: seen.ids.index(X) == 1
    ),
    "sampling.dry_multiplier": Good({"sampling": {**OFTEN, "dry_multiplier": 90.0}}, lambda seen: {*seen.ids} > {X}),
    "sampling.dry_base": Good(
        {"sampling": {**OFTEN, "dry_multiplier": 1.0, "dry_base": 99.0}}, lambda seen: {*seen.ids} > {X}
    ),
    "sampling.dry_allowed_length": Good(
        {"sampling": {**OFTEN, "dry_multiplier": 900.0, "dry_allowed_length": 5}},
        lambda seen: "x" * 6 in seen.streamed.text and "x" * 7 not in seen.streamed.text,
    ),
    "sampling.dry_penalty_last_n": Good(
        {"sampling": {**OFTEN, "dry_multiplier": 900.0, "dry_penalty_last_n": 1}},
        lambda seen: seen.ids == [X] * COUNT,
    ),
    "sampling.dry_sequence_breakers": Good(
        {"sampling": {**OFTEN, "dry_multiplier": 900.0, "dry_sequence_breakers": ["x"]}},
        lambda seen: seen.ids == [X] * COUNT,
    ),
    "sampling.bad_words_ids.ids": Good(
        {"sampling": {**OFTEN, "bad_words_ids": [{"ids": [X, X, X]}]}},
        lambda seen: "xx" in seen.streamed.text and "xxx" not in seen.streamed.text,
    ),
}
SET_VALUES: dict[str, list[Any]] = {
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
"""Values for random sets of parameters, by the fields of SamplingParams."""

_BAD_NUMBERS = [
    ("top_n_sigma", -1.0, "at least 0"),
    ("smoothing_factor", -0.5, "at least 0"),
    ("smoothing_curve", 0.5, "at least 1, at most 3"),
    ("dynatemp_range", -0.5, "at least 0"),
    ("dynatemp_exponent", -1.0, "at least 0"),
    ("top_a", 1.5, "at least 0, at most 1"),
    ("tfs_z", 0.0, "above 0, at most 1"),
    ("typical_p", 0.0, "above 0, at most 1"),
    ("epsilon_cutoff", 1.5, "at least 0, at most 1"),
    ("eta_cutoff", -0.5, "at least 0, at most 1"),
    ("xtc_probability", 1.5, "at least 0, at most 1"),
    ("xtc_threshold", -0.5, "at least 0, at most 1"),
    ("skew", 11.0, "at least -10, at most 10"),
    ("mirostat_mode", 3, "at least 0, at most 2"),
    ("mirostat_tau", -1.0, "at least 0"),
    ("mirostat_eta", -0.5, "at least 0"),
    ("adaptive_target", 1.5, "at least -1, at most 1"),
    ("adaptive_decay", 1.0, "at least 0, at most 0.99"),
    ("penalty_last_n", -1, "at least 0"),
    ("penalty_decay", -1, "at least 0"),
    ("dry_multiplier", -1.0, "at least 0"),
    ("dry_base", 0.5, "at least 1"),
    ("dry_allowed_length", -1, "at least 0"),
    ("dry_penalty_last_n", -1, "at least 0"),
    ("no_repeat_ngram_size", -1, "at least 0"),
]
BAD_SAMPLERS: dict[str, tuple[dict[str, Any], str, str]] = {
    **{
        f"{name} is {value}": ({"sampling": {name: value}}, f"sampling.{name}", f"is {value:g}; allowed: {allowed}")
        for name, value, allowed in _BAD_NUMBERS
    },
    "both that feed back": (
        {"sampling": {"mirostat_mode": 2, "adaptive_target": 0.5}},
        "sampling.adaptive_target",
        "is 0.5; allowed: below 0 with mirostat_mode",
    ),
    "mirostat with banned strings": (
        {"sampling": {"mirostat_mode": 1, "banned_strings": ["x"]}},
        "sampling.mirostat_mode",
        "is 1; allowed: 0 with banned_strings",
    ),
    "mirostat with guidance": (
        {"sampling": {"mirostat_mode": 2}, "guidance": {"scale": 2.0}},
        "sampling.mirostat_mode",
        "is 2; allowed: 0 with guidance",
    ),
    "adaptive-p with healing": (
        {"prompt": {"text": "Once", "heal": True}, "sampling": {"adaptive_target": 0.5}},
        "sampling.adaptive_target",
        "is 0.5; allowed: below 0 with prompt.heal",
    ),
    "no sampler": (
        {"sampling": {"samplers": [common_pb2.SAMPLER_TOP_K, 99]}},
        "sampling.samplers[1]",
        "is 99; allowed: SAMPLER_TOP_N_SIGMA, ",
    ),
    "unknown id suppressed": (
        {"sampling": {"suppress_token_ids": [1, VOCAB_SIZE]}},
        "sampling.suppress_token_ids[1]",
        "is 512; allowed: 0 to 511",
    ),
    "too many ids suppressed": (
        {"sampling": {"begin_suppress_token_ids": [1] * 1025}},
        "sampling.begin_suppress_token_ids",
        "has 1025 entries; allowed: at most 1024",
    ),
    "unknown id suppressed at the beginning": (
        {"sampling": {"begin_suppress_token_ids": [VOCAB_SIZE]}},
        "sampling.begin_suppress_token_ids[0]",
        "is 512",
    ),
    "bad word of nothing": (
        {"sampling": {"bad_words_ids": [{"ids": [1]}, {"ids": []}]}},
        "sampling.bad_words_ids[1]",
        "has 0 tokens; allowed: 1 to 32 tokens",
    ),
    "bad word of an unknown id": (
        {"sampling": {"bad_words_ids": [{"ids": [1, VOCAB_SIZE]}]}},
        "sampling.bad_words_ids[0].ids[1]",
        "is 512",
    ),
    "too many bad words": (
        {"sampling": {"bad_words_ids": [{"ids": [1]}] * 129}},
        "sampling.bad_words_ids",
        "has 129 entries; allowed: at most 128",
    ),
    "empty breaker": (
        {"sampling": {"dry_multiplier": 1.0, "dry_sequence_breakers": ["a", ""]}},
        "sampling.dry_sequence_breakers[1]",
        "has 0 bytes; allowed: 1 to 40 bytes",
    ),
    "too many breakers": (
        {"sampling": {"dry_sequence_breakers": ["a"] * 33}},
        "sampling.dry_sequence_breakers",
        "has 33 entries; allowed: at most 32",
    ),
    "a sampler twice": (
        {"sampling": {"samplers": [common_pb2.SAMPLER_XTC, common_pb2.SAMPLER_XTC]}},
        "sampling.samplers",
        "names xtc more than once",
    ),
}
