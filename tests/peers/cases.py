"""The comparisons: each sampler that a peer has, with numbers, and the reasons for which the peer may differ."""

from collections import Counter
from dataclasses import dataclass, field

from tests.native.harness.sampling_reference import Settings
from tests.peers.reasons import (
    SHARE_TOO,
    Reason,
    above,
    below_a_hundred_millionth,
    by_the_next_token,
    is_a_tie,
    largest_below,
    masked_count_too,
    near_in_bends,
    near_in_distance,
    near_in_mass,
    near_the_cut,
    no_whole_number,
    one_of_the_best,
    step_of,
    underflow,
)

UNEXPLAINED = "for no known reason"
TIE = Reason("equal tokens at the cut: here those of lowest id stay, there any", is_a_tie)


def rounding(name: str) -> Reason:
    return Reason("float32: a token so near the cut that its roundings decide", near_the_cut(step_of(name)))


@dataclass(frozen=True)
class Case:
    """A sampler of a peer."""

    peer: str
    name: str
    number: str  # of the settings, that says where the cut is
    asked: tuple[Settings, ...]  # taken in turn
    reasons: tuple[Reason, ...] = ()
    cuts: bool = True  # whether kept sets are compared, and else probabilities
    has_history: bool = False

    @property
    def what(self) -> str:
        """What is compared: kept sets or shares."""
        return "kept" if self.cuts else "shares"


@dataclass
class Tally:
    """What came of the rows of one case."""

    rows: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


LLAMA, EXLLAMA = "llama.cpp", "exllamav2"
_TOP_K = tuple(Settings(top_k=k) for k in (1, 5, 40, 600))
_TOP_P = tuple(Settings(top_p=p) for p in (0.3, 0.9, 0.99))
_MIN_P = tuple(Settings(min_p=p) for p in (0.01, 0.1, 0.7))
_SIGMA = tuple(Settings(top_n_sigma=n) for n in (0.3, 1.0, 2.0))
_TOP_A = tuple(Settings(top_a=a) for a in (0.05, 0.3, 0.9))
_TAIL_FREE = tuple(Settings(tfs_z=z) for z in (0.5, 0.9, 0.99))
_SMOOTHING = tuple(Settings(smoothing_factor=f) for f in (0.1, 0.5, 2.0))
_ADAPTIVE = tuple(Settings(adaptive_target=target) for target in (0.05, 0.4, 0.9))
_TYPICAL = tuple(Settings(typical_p=p) for p in (0.2, 0.7, 0.95))
_XTC = tuple(Settings(xtc_probability=1.0, xtc_threshold=each) for each in (0.01, 0.05, 0.2))
_DYNAMIC = tuple(
    Settings(temperature=1.1, dynatemp_range=part, dynatemp_exponent=exponent)
    for part, exponent in ((0.3, 1.0), (0.8, 0.7), (0.6, 2.0))
)
_MIROSTAT_1, _MIROSTAT_2 = (
    tuple(Settings(mirostat_mode=mode, mirostat_tau=tau) for tau in (0.8, 2.0, 3.5)) for mode in (1, 2)
)
_PENALTIES = (
    Settings(repetition_penalty=1.3),
    Settings(frequency_penalty=0.4, presence_penalty=0.7),
    Settings(repetition_penalty=0.8, frequency_penalty=-0.2, presence_penalty=0.3, penalty_last_n=7),
)
_DRY = (
    Settings(dry_multiplier=0.8),
    Settings(dry_multiplier=0.5, dry_base=1.2, dry_allowed_length=1),
    Settings(dry_multiplier=1.5, dry_allowed_length=3, dry_penalty_last_n=20),
    Settings(dry_multiplier=0.8, dry_allowed_length=1, dry_breaker_ids=tuple(range(16))),
)
_UNDERFLOW = Reason("a probability is 0 in float32, and 0 · log 0 no number: its entropy is none", underflow)
_NO_INT = Reason("its number of tokens is no int, as of a masked or flat row: it keeps the best alone", no_whole_number)
_ONE_BEST = Reason("none is within the limit: it keeps one, here all that equal the best stay", one_of_the_best)
_CROSSES = "its search, done in place, takes one token more where its two ends cross"
_MIN_P_CROSSES = Reason(_CROSSES, near_the_cut(above(lambda share, asked: share.max() * asked.min_p)))
_TOP_A_CROSSES = Reason(_CROSSES, near_the_cut(above(lambda share, asked: share.max() ** 2 * asked.top_a)))
_MASKED = Reason("masked tokens count in the number of tokens that normalises the entropy", masked_count_too)
_SMALL = Reason("of more than 500 those below 1e-8 are not sorted: any of them are kept", below_a_hundred_millionth)

LLAMA_CASES = (
    Case(LLAMA, "top_k", "top_k", _TOP_K, (TIE,)),
    Case(LLAMA, "top_p", "top_p", _TOP_P, (TIE, rounding("top_p"))),
    Case(LLAMA, "min_p", "min_p", _MIN_P, (rounding("min_p"),)),
    Case(
        LLAMA, "typical", "typical_p", _TYPICAL,
        (TIE, Reason("distances from the entropy that float32 tells not apart", near_in_distance()), _UNDERFLOW),
    ),
    Case(LLAMA, "top_n_sigma", "top_n_sigma", _SIGMA, (rounding("top_n_sigma"),)),
    Case(LLAMA, "xtc", "xtc_threshold", _XTC, (TIE, rounding("xtc"))),
    Case(LLAMA, "temperature", "temperature", (Settings(temperature=0.7), *_DYNAMIC), (_MASKED,), cuts=False),
    Case(LLAMA, "mirostat_1", "mirostat_tau", _MIROSTAT_1, (TIE, rounding("mirostat_1"), _NO_INT)),
    Case(LLAMA, "mirostat_2", "mirostat_tau", _MIROSTAT_2, (rounding("mirostat_2"), _ONE_BEST)),
    Case(LLAMA, "adaptive_p", "adaptive_target", _ADAPTIVE, cuts=False),
    Case(LLAMA, "penalties", "repetition_penalty", _PENALTIES, cuts=False, has_history=True),
    Case(LLAMA, "dry", "dry_multiplier", _DRY, cuts=False, has_history=True),
)  # fmt: skip
EXLLAMA_CASES = (
    Case(EXLLAMA, "top_k", "top_k", _TOP_K, (TIE, _SMALL)),
    Case(
        EXLLAMA, "top_p", "top_p", _TOP_P,
        (Reason("it keeps the most that stay below p, without what is below 1e-6", near_in_mass(largest_below)),),
    ),
    Case(EXLLAMA, "top_a", "top_a", _TOP_A, (rounding("top_a"), _TOP_A_CROSSES)),
    Case(EXLLAMA, "min_p", "min_p", _MIN_P, (rounding("min_p"), _MIN_P_CROSSES)),
    Case(
        EXLLAMA, "tail_free", "tfs_z", _TAIL_FREE,
        (
            Reason("float32: bends of the curve that are sums of roundings", near_in_bends()),
            Reason("it keeps one token more, and none below 1e-8", near_in_bends(1)),
        ),
    ),
    Case(
        EXLLAMA, "typical", "typical_p", _TYPICAL,
        (Reason("it adds the probability to its logarithm before it takes distances", SHARE_TOO),),
    ),
    Case(EXLLAMA, "mirostat_2", "mirostat_tau", _MIROSTAT_2, (rounding("mirostat_2"), _ONE_BEST)),
    Case(
        EXLLAMA, "xtc", "xtc_threshold", _XTC,
        (Reason("it looks at the probability of the next token in the order of ids", near_the_cut(by_the_next_token)),),
    ),
    Case(EXLLAMA, "temperature", "temperature", _DYNAMIC, (_MASKED,), cuts=False),
    Case(EXLLAMA, "smoothing", "smoothing_factor", _SMOOTHING, cuts=False),
    Case(
        EXLLAMA, "penalties", "repetition_penalty",
        (*_PENALTIES, Settings(repetition_penalty=1.4, frequency_penalty=0.3, penalty_last_n=5, penalty_decay=10)),
        cuts=False, has_history=True,
    ),
)  # fmt: skip
