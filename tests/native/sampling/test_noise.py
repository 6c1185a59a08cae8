"""The sampling noise: its generator, its layout, and that it is Gumbel noise."""

import zlib
from collections.abc import Sequence as Seq

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from services.engine.decoder.native import NOISE_VERSION, derive_seed
from services.engine.decoder.native.testing import gumbel, gumbel_noise, philox4x32

VOCAB = 152_000
WORD = 0xFFFFFFFF
TOKEN_STREAM, SEED_STREAM = 0, 1

# Central moments 1 to 3 of the standard Gumbel distribution about its mean, and moments 2, 4 and 6, which are the
# variances of their estimates. From its cumulants, (n - 1)! zeta(n).
MOMENTS = (0.0, 1.6449340668, 2.4041138063)
EVEN_MOMENTS = (1.6449340668, 14.6113636557, 406.8734)


def philox_reference(counter: Seq[int], key: Seq[int]) -> tuple[int, ...]:
    """Philox4x32-10 as the paper writes it: ten rounds, the key bumped between them."""
    c, k = list(counter), list(key)
    for _ in range(10):
        low, high = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(high >> 32) ^ c[1] ^ k[0], high & WORD, (low >> 32) ^ c[3] ^ k[1], low & WORD]
        k = [(k[0] + 0x9E3779B9) & WORD, (k[1] + 0xBB67AE85) & WORD]
    return tuple(c)


def gumbel_reference(word: int) -> np.float32:
    """The noise that a word stands for, to 40 digits before the one rounding."""
    with mpmath.workdps(40):
        w = (mpmath.mpf(word) + 0.5) / 2**32
        return np.float32(float(-mpmath.log(-mpmath.log1p(-w))))


def noise_reference(seed: int, position: int, stream: int, token_id: int) -> np.float32:
    counter = (token_id // 4, position & WORD, position >> 32, stream)
    return gumbel_reference(philox_reference(counter, (seed & WORD, seed >> 32))[token_id % 4])


def moments_of(noise: NDArray[np.float32]) -> NDArray[np.float64]:
    centred = noise.astype(np.float64) - np.euler_gamma
    squared = centred * centred
    return np.array([centred.mean(), squared.mean(), (squared * centred).mean()])


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((WORD,) * 4, (WORD,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_answers(counter, key, words):
    """The vectors `philox4x32 10` of Random123's kat_vectors."""
    assert philox4x32(counter, key) == words
    assert philox_reference(counter, key) == words


def test_philox_agrees_with_the_paper_on_random_input():
    words = np.random.default_rng(0).integers(0, 2**32, (200, 6)).tolist()
    for row in words:
        assert philox4x32(row[:4], row[4:]) == philox_reference(row[:4], row[4:])


KNOWN_NOISE = {
    (0, 0, 0): [0x3F2CC258, 0xBF40EB19, 0xBE9249CC, 0x3D946D21, 0xBFA36588, 0x3F4CAB23],
    (0x0123456789ABCDEF, 0xFEDCBA9876, 0): [0x3FB852B1, 0xBC363C87, 0xBFD31B6B, 0x3D30598C, 0xBF285BD3, 0xBE41B3F1],
    (2**64 - 1, 2**64 - 1, 1): [0x3F6C7BAC, 0x3EC6BCB6, 0x3E877BD4, 0x3F8A4077, 0xBE22B09C, 0x3F3BA012],
}


@pytest.mark.parametrize("key", KNOWN_NOISE)
def test_noise_version_1_has_these_bits(key):
    assert NOISE_VERSION == 1
    assert gumbel_noise(*key, 6).view(np.uint32).tolist() == KNOWN_NOISE[key]


def test_noise_version_1_has_these_bits_over_four_million_words():
    """A sum over every 1024th word: any change of the arithmetic, or a machine that differs, shows here."""
    words = np.arange(511, 2**32, 1024).astype(np.uint32)
    assert NOISE_VERSION == 1
    assert zlib.crc32(gumbel(words).astype("<f4").tobytes()) == 0x4EF2FC4C


@pytest.mark.parametrize("key", [*KNOWN_NOISE, (1, 2**32, 0), (2**32, 1, 0), (5, 1000, 7)])
def test_noise_is_laid_out_as_described(key):
    count = 4 * 64 + 3
    expected = np.array([noise_reference(*key, token_id) for token_id in range(count)])
    assert np.array_equal(gumbel_noise(*key, count), expected)


def test_noise_does_not_depend_on_the_vocabulary_size():
    whole = gumbel_noise(3, 14, TOKEN_STREAM, VOCAB)
    for count in [0, 1, 3, 4, 5, 8, 255, 256, 257, 100_001]:
        assert np.array_equal(gumbel_noise(3, 14, TOKEN_STREAM, count), whole[:count])
    last = VOCAB - 1
    assert whole[last] == noise_reference(3, 14, TOKEN_STREAM, last)


def test_the_least_and_the_greatest_word_occur_and_are_finite():
    """Positions and ids found by search, where the generator returns 0 and 2^32 - 1."""
    greatest, least = (18696, 98353), (42733, 113636)
    assert gumbel_noise(0, greatest[0], TOKEN_STREAM, VOCAB)[greatest[1]] == gumbel_reference(0)
    assert gumbel_noise(0, least[0], TOKEN_STREAM, VOCAB)[least[1]] == gumbel_reference(WORD)
    assert -3.2 < gumbel_reference(WORD) < gumbel_reference(0) < 22.9


def test_words_become_the_correctly_rounded_noise():
    rng = np.random.default_rng(1)
    uniform = rng.integers(0, 2**32, 4000, dtype=np.uint32)
    small = uniform >> rng.integers(0, 32, 4000).astype(np.uint32)
    words = np.concatenate([uniform, small, ~small, np.arange(64, dtype=np.uint32)])
    assert np.array_equal(gumbel(words), np.array([gumbel_reference(int(word)) for word in words]))


@pytest.mark.parametrize("stride", [2048, pytest.param(64, marks=pytest.mark.exhaustive)])
def test_the_noise_falls_as_the_word_grows(stride):
    """Over every word at both ends and one in each stride between: with finite ends, all of it is finite."""
    ends = 2**20
    starts = np.arange(0, 2**32, 2**26)
    pieces = [
        np.arange(ends),
        *(np.arange(start, start + 2**26, stride) for start in starts),
        np.arange(2**32 - ends, 2**32),
    ]
    for piece in pieces:
        noise = gumbel(piece.astype(np.uint32))
        assert np.isfinite(noise).all()
        assert (np.diff(noise) <= 0).all()


def test_the_mean_over_all_words_is_the_gumbel_mean():
    """Every 256th word, taken at the middle of its 256: the integral over the unit interval but for its tails."""
    blocks = np.arange(128, 2**32, 256).astype(np.uint32).reshape(64, -1)
    moments = np.mean([moments_of(gumbel(block)) for block in blocks], axis=0)
    assert np.allclose(moments, MOMENTS, rtol=0, atol=[1e-6, 1e-5, 2e-4])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rows", [40, pytest.param(100_000, marks=pytest.mark.exhaustive)])
def test_noise_of_large_rows_is_finite_with_gumbel_moments(rows):
    total = np.zeros(3)
    for position in range(rows):
        noise = gumbel_noise(1, position, TOKEN_STREAM, VOCAB)
        assert np.isfinite(noise).all()
        total += moments_of(noise)
    errors = (total / rows - MOMENTS) / np.sqrt((np.array(EVEN_MOMENTS) - np.square(MOMENTS)) / (rows * VOCAB))
    assert np.abs(errors).max() < 4  # standard errors


def neighbours() -> list[tuple[str, NDArray[np.float32], NDArray[np.float32]]]:
    row = gumbel_noise(9, 100, TOKEN_STREAM, VOCAB)
    return [
        *((f"position + {lag}", row, gumbel_noise(9, 100 + lag, TOKEN_STREAM, VOCAB)) for lag in [1, 2, 3, 2**32]),
        *((f"seed ^ {bit}", row, gumbel_noise(9 ^ bit, 100, TOKEN_STREAM, VOCAB)) for bit in [1, 2, 2**32, 2**63]),
        *((f"token id + {lag}", row[lag:], row[:-lag]) for lag in [1, 2, 3, 4, 5, 8, 4096]),
        ("stream", row, gumbel_noise(9, 100, SEED_STREAM, VOCAB)),
    ]


def test_noise_is_uncorrelated_across_positions_seeds_and_tokens():
    for name, left, right in neighbours():
        correlation = np.corrcoef(left, right)[0, 1] * np.sqrt(len(left))
        assert abs(correlation) < 4, name
        tails = np.corrcoef(left > 3, right > 3)[0, 1] * np.sqrt(len(left))
        assert abs(tails) < 4, name


def test_seeds_of_further_samples():
    assert derive_seed(42, 0) == 42
    assert derive_seed(2**64 - 1, 0) == 2**64 - 1
    for seed, sample in [(42, 1), (42, 2), (2**64 - 1, 1), (0, 2**40)]:
        low, high, _, _ = philox_reference((0, sample & WORD, sample >> 32, SEED_STREAM), (seed & WORD, seed >> 32))
        assert derive_seed(seed, sample) == low | high << 32
    derived = {derive_seed(seed, sample) for seed in range(100) for sample in range(100)}
    assert len(derived) == 10_000


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="count"):
        gumbel_noise(0, 0, 0, -1)
    with pytest.raises(TypeError):
        gumbel_noise(-1, 0, 0, 4)
    with pytest.raises(TypeError):
        philox4x32((1, 2, 3), (0, 0))
