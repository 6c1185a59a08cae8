"""Reasons for which a peer keeps other tokens: each says, in float64, what it would then have kept."""

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tests.native.harness.feedback_reference import first_level, step
from tests.native.harness.sampling_reference import Doubles, Settings
from tests.native.harness.step_reference import STEPS, best_first, entropy, only, probabilities

_NEAR = 1e-4  # a part of a cut, which sums in float32 of up to 5,000 tokens may miss
_SMALLEST = 2.0**-24  # a rounding of a probability
_LEAST = 1e-37  # to which exponentials in float32 fall

Kept = np.ndarray  # a flag for each token  # [vocab]
Step = Callable[[Doubles, Settings], Doubles]


@dataclass(frozen=True)
class Difference:
    """A row with another result by a peer."""

    values: Doubles  # [vocab]
    asked: Settings
    number: str  # of the settings, that says where the cut is
    ours: Kept
    shares: Doubles  # that the peer gives  # [vocab]

    @property
    def theirs(self) -> Kept:
        return self.shares > 0


@dataclass(frozen=True)
class Reason:
    """Why a peer differs, and whether a difference has this reason."""

    text: str
    explains: Callable[[Difference], bool]


def step_of(name: str) -> Step:
    """The reference's sampler of this name."""
    if name.startswith("mirostat"):
        return lambda values, asked: step(values, asked, first_level(asked)).values
    return STEPS[name]


def is_a_tie(difference: Difference) -> bool:
    """Whether as many of equal tokens are kept, but others of them."""
    shares = np.maximum(probabilities(difference.values), _LEAST).astype(np.float32)
    return np.array_equal(np.sort(shares[difference.ours]), np.sort(shares[difference.theirs]))


def near_the_cut(made: Step) -> Callable[[Difference], bool]:
    """Whether a definition keeps what the peer keeps at a cut that is a ten-thousandth elsewhere (more in large
    rows), equal tokens taken for each other."""

    def explains(difference: Difference) -> bool:
        number = getattr(difference.asked, difference.number)
        near = _NEAR * max(1, len(difference.values) / 5000)
        kept = [
            np.isfinite(made(difference.values, replace(difference.asked, **{difference.number: number * part})))
            for part in ((1 - near, 1, 1 + near) if isinstance(number, float) else (1,))
        ]
        least, most = np.logical_and.reduce(kept), np.logical_or.reduce(kept)
        shares = probabilities(difference.values).astype(np.float32)
        fewest, theirs, all_of_them = (Counter(shares[flags].tolist()) for flags in (least, difference.theirs, most))
        return fewest <= theirs <= all_of_them

    return explains


def near_in_mass(made: Step) -> Callable[[Difference], bool]:
    """Whether a definition keeps what the peer keeps but for tokens of two ten-thousandths together."""

    def explains(difference: Difference) -> bool:
        apart = np.isfinite(made(difference.values, difference.asked)) != difference.theirs
        return near_the_cut(made)(difference) or bool(probabilities(difference.values)[apart].sum() < 2 * _NEAR)

    return explains


def _own_surprise(values: Doubles) -> Doubles:
    return np.log(probabilities(values) + 1e-300)


def _surprise_and_share(values: Doubles) -> Doubles:
    return probabilities(values) + np.log(probabilities(values) + 1e-10)


def near_in_distance(figure: Callable[[Doubles], Doubles] = _own_surprise) -> Callable[[Difference], bool]:
    """Whether those nearest to the mean of a figure are kept, but for distances that float32 tells not apart."""

    def explains(difference: Difference) -> bool:
        share, told = probabilities(difference.values), figure(difference.values)
        finite, kept = np.isfinite(difference.values), difference.theirs
        distance = np.abs(told - (share * told)[finite].sum())
        blurred = 2e-6 * max(1, len(told) / 1000) * (1 + np.abs(told).max(where=share > _LEAST, initial=0))
        last = distance[kept].max()
        if (distance[finite & ~kept & (share > 1e-8)] < last - blurred).any():
            return False
        wanted = difference.asked.typical_p
        surely = share[finite & (distance < last - blurred)].sum()
        # One that ends before the last token that reaches p has one token less.
        return bool(surely <= wanted + _NEAR)

    return explains


def near_in_bends(more: int = 0) -> Callable[[Difference], bool]:
    """Whether the tail begins where it may with bends of probabilities that are rounded, or so many tokens later."""

    def explains(difference: Difference) -> bool:
        order = best_first(difference.values)
        share = probabilities(difference.values)[order]
        bends = np.abs(np.diff(share, n=2))
        blur = _SMALLEST * 8 * share[:-2] + 1e-8
        low, high = np.maximum(bends - blur, 0), bends + blur
        earliest = np.cumsum(high) / max(low.sum(), 1e-30) > difference.asked.tfs_z - _NEAR
        latest = np.cumsum(low) / high.sum() > difference.asked.tfs_z + _NEAR
        first = int(np.argmax(earliest)) if earliest.any() else len(order)
        last = int(np.argmax(latest)) if latest.any() else len(order)
        count = int(difference.theirs.sum())
        best = is_a_tie(replace(difference, ours=_flags(order[:count], len(difference.values))))
        return best and max(first, 1) + min(more, 0) <= count <= last + more

    return explains


def underflow(difference: Difference) -> bool:
    """Whether a probability is 0 in float32, so that 0 · log 0 is no number."""
    shifted = (difference.values - difference.values.max()).astype(np.float32)
    share = np.exp(shifted)
    return bool((share / share.sum(dtype=np.float32) == 0).any())


def largest_below(values: Doubles, asked: Settings) -> Doubles:
    """exllamav2's top_p_cpu: a heap that is emptied from below while it holds more than p."""
    heap, held = list[tuple[np.float32, int]](), np.float32(0)
    for token_id, share in enumerate(probabilities(values).astype(np.float32)):
        if share < 1e-6 or (held > asked.top_p and heap and share < heap[0][0]):
            continue
        heapq.heappush(heap, (share, token_id))
        held += share
        while held > asked.top_p and len(heap) > 1:
            held -= heapq.heappop(heap)[0]
    return only(values, np.array([token_id for _, token_id in heap], np.int64))


def by_the_next_token(values: Doubles, asked: Settings) -> Doubles:
    """exllamav2's xtc_cpu: a token goes if the next one in the order of ids reaches the threshold."""
    reaches = probabilities(values) >= asked.xtc_threshold
    if reaches.sum() <= 1:
        return values
    return only(values, ~np.append(reaches[1:], False))


def above(part: Callable[[Doubles, Settings], float]) -> Step:
    """exllamav2's keep_threshold: where its two ends cross, it swaps one more in."""

    def made(values: Doubles, asked: Settings) -> Doubles:
        share = [*probabilities(values).astype(np.float32).tolist(), 0.0]
        ids, least = list(range(len(share))), part(probabilities(values), asked)
        low, high = 0, len(values) - 1
        while high >= low:
            while share[low] >= least and high >= low:
                low += 1
            if share[high] >= least:
                share[low], share[high] = share[high], share[low]
                ids[low], ids[high] = ids[high], ids[low]
                low += 1
            high -= 1
        return only(values, np.array([each for each in ids[:low] if each < len(values)], np.int64))

    return made


def no_whole_number(difference: Difference) -> bool:
    """Whether mirostat 1 finds no number of tokens that an int holds, which leaves one."""
    share = np.sort(probabilities(difference.values))[::-1]
    ranks = np.log(np.arange(2, len(share[:100]) + 1) / np.arange(1, len(share[:100])))
    with np.errstate(all="ignore"):
        exponent = (ranks * -np.diff(np.log(share[:100]))).sum() / (ranks**2).sum()
        beyond, level = exponent - 1, first_level(difference.asked)
        ratio = beyond * 2**level / (1 - float(len(share)) ** -beyond)
        count = np.exp(np.log(ratio) / exponent)
    return bool(difference.theirs.sum() == 1 and not count < 2**31 * (1 - _NEAR))


def one_of_the_best(difference: Difference) -> bool:
    """Whether all that are equal to the best are kept, and one of them there."""
    best = difference.values == difference.values.max()
    return bool(np.array_equal(difference.ours, best) and difference.theirs.sum() == 1 and best[difference.theirs][0])


def below_a_hundred_millionth(difference: Difference) -> bool:
    """Whether those that one keeps and the other not are all of less than 1e-8."""
    apart = difference.ours != difference.theirs
    return bool((probabilities(difference.values)[apart] < 1e-8).all())


def masked_count_too(difference: Difference) -> bool:
    """Whether the temperature follows the entropy as a part of what it can be of all tokens, masked ones too."""
    asked, values = difference.asked, difference.values
    part = entropy(values) / np.log(len(values))
    low, high = max(0.0, asked.temperature - asked.dynatemp_range), asked.temperature + asked.dynatemp_range
    divisor = low + (high - low) * part**asked.dynatemp_exponent
    return bool(np.allclose(probabilities(values / divisor), difference.shares, rtol=0, atol=1e-5))


def _flags(ids: np.ndarray, vocab: int) -> Kept:
    result = np.zeros(vocab, np.bool_)
    result[ids] = True
    return result


SHARE_TOO = near_in_distance(_surprise_and_share)
