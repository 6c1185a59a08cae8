"""Running ahead in one call draws what single passes and draws do, to the bit."""

import functools
import itertools
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

import numpy as np
import pytest

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch, Decoder, Sampler, isas
from services.engine.decoder.native.testing import poison
from tests.harness.further import further
from tests.harness.models.checkpoints import VOCAB_SIZE, Kind, random_checkpoint
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.native.harness.devices import DEVICES, EMULATION, GPU, make_device
from tests.native.harness.sampling_reference import Settings

NUM_BLOCKS = 24
MAX_SEQUENCES = 6
MAX_BLOCKS = 4
NO_BLOCK = -1

GREEDY = Settings(temperature=0.0)
GREEDY_PENALISED = Settings(temperature=0.0, repetition_penalty=1.4, frequency_penalty=2.0, presence_penalty=1.0)
SAMPLED = Settings(seed=3, temperature=1.5)
EVERYTHING = Settings(
    seed=77,
    temperature=1.3,
    top_k=60,
    top_p=0.97,
    min_p=0.001,
    repetition_penalty=1.3,
    frequency_penalty=0.5,
    presence_penalty=0.5,
    logit_bias=((40, 3.0), (41, -3.0)),
    min_tokens=12,
    stop_ids=(44, 45, 46),
)


@dataclass(frozen=True)
class Rows:
    """A sequence of the first pass: the rows of its tokens from `start` on; those before are in the cache."""

    tokens: list[int]
    start: int


@dataclass(frozen=True)
class Run:
    """A state of the call: history and chain are the first tokens of a sequence, the row asked is the last of them."""

    sequence: int
    settings: Settings
    num_prompt: int
    num_generated: int
    num_chain: int
    count: int

    @property
    def end(self) -> int:
        return self.num_prompt + self.num_generated + self.num_chain

    def split(self, tokens: list[int]) -> tuple[list[int], list[int], list[int]]:
        """The tokens of its prompt, its generation and its chain."""
        chain = self.end - self.num_chain
        return tokens[: self.num_prompt], tokens[self.num_prompt : chain], tokens[chain : self.end]


def random_tokens(count: int) -> list[int]:
    """From few ids, so that penalties have something to count."""
    return np.random.default_rng(count).integers(30, 60, count).tolist()


SEQUENCES = [
    Rows(random_tokens(31), start=28),
    Rows(random_tokens(53), start=45),
    Rows(random_tokens(10), start=0),
    Rows(random_tokens(62), start=61),
    Rows(random_tokens(50), start=7),  # a prefill chunk without a draw
    Rows(random_tokens(35), start=33),
]
RUNS = [  # those of one sequence in another order than its rows
    Run(3, SAMPLED, num_prompt=61, num_generated=0, num_chain=1, count=7),
    Run(0, GREEDY, num_prompt=29, num_generated=0, num_chain=2, count=5),
    Run(1, EVERYTHING, num_prompt=40, num_generated=6, num_chain=7, count=6),
    Run(2, SAMPLED, num_prompt=10, num_generated=0, num_chain=0, count=1),
    Run(5, GREEDY_PENALISED, num_prompt=20, num_generated=14, num_chain=1, count=5),
    Run(5, EVERYTHING, num_prompt=20, num_generated=14, num_chain=0, count=1),
]


@functools.cache
def make_decoder(kind: Kind | Further, device_name: str, threads: int) -> tuple[Decoder, Sampler]:
    device = make_device(device_name, threads)
    checkpoint = load_checkpoint(further_checkpoint(kind) if isinstance(kind, Further) else random_checkpoint(kind))
    return load_decoder(checkpoint, device, weights="bf16", kv="bf16", num_blocks=NUM_BLOCKS), Sampler(device)


def make_batch(last_positions: Seq[int]) -> Batch:
    """Sequence i has the blocks up to its last position, and no others."""
    batch = Batch(max_rows=128, max_sequences=MAX_SEQUENCES, max_blocks=MAX_BLOCKS)
    free = np.random.default_rng(5).permutation(NUM_BLOCKS).tolist()
    batch.block_tables[:] = NO_BLOCK
    for sequence, position in enumerate(last_positions):
        count = position // BLOCK_SIZE + 1
        batch.block_tables[sequence, :count] = [free.pop() for _ in range(count)]
    batch.num_sequences = len(last_positions)
    return batch


def fill(batch: Batch, rows: Seq[tuple[int, int, int]], asked: Seq[tuple[int, int]] = ()) -> Batch:
    """Rows are (position, sequence, token id); the asked ones are named by sequence and position."""
    places = {(sequence, position): row for row, (position, sequence, _) in enumerate(rows)}
    for row, (position, sequence, token_id) in enumerate(rows):
        batch.positions[row], batch.sequences[row], batch.token_ids[row] = position, sequence, token_id
    batch.logit_rows[: len(asked)] = [places[place] for place in asked]
    batch.num_rows, batch.num_logits = len(rows), len(asked)
    return batch


def rows_of(sequence: int, tokens: Seq[int], start: int) -> list[tuple[int, int, int]]:
    return [(position, sequence, tokens[position]) for position in range(start, len(tokens))]


@dataclass(frozen=True)
class Steps:
    """What single steps drew, and the logits of the last draw."""

    drawn: list[int]
    logits: bytes


@functools.cache
def single_steps(kind: Kind | Further, device_name: str, run: Run) -> Steps:
    """The run alone: one prefill, then a pass and a draw for each token, the history committed to a fresh state."""
    decoder, sampler = make_decoder(kind, device_name, 1)
    poison(decoder, range(NUM_BLOCKS))
    tokens = SEQUENCES[run.sequence].tokens[: run.end]
    batch = make_batch([run.end + run.count - 1])
    drawn: list[int] = []
    start = 0
    while True:
        logits = decoder.forward(fill(batch, rows_of(0, tokens, start), [(0, len(tokens) - 1)])).logits
        state = run.settings.state(tokens[: run.num_prompt], tokens[run.num_prompt :])
        drawn += sampler.sample(logits, [state], [[]]).token_ids.tolist()
        if len(drawn) == run.count:
            return Steps(drawn, logits.numpy().tobytes())
        start = len(tokens)
        tokens = [*tokens, drawn[-1]]


def last_written(sequence: int) -> int:
    runs = [run for run in RUNS if run.sequence == sequence]
    return max([len(SEQUENCES[sequence].tokens) - 1, *(run.end + run.count - 2 for run in runs)])


def prefilled_batch(decoder: Decoder) -> Batch:
    """A batch with all rows of SEQUENCES mixed, those before them in the cache and every other block poisoned."""
    poison(decoder, range(NUM_BLOCKS))
    batch = make_batch([last_written(sequence) for sequence in range(len(SEQUENCES))])
    for sequence, rows in enumerate(SEQUENCES):
        if rows.start > 0:
            decoder.forward(fill(batch, rows_of(sequence, rows.tokens[: rows.start], 0)))
    mixed = sorted(row for index, rows in enumerate(SEQUENCES) for row in rows_of(index, rows.tokens, rows.start))
    return fill(batch, mixed, [(run.sequence, run.end - 1) for run in RUNS])


def extend(decoder: Decoder, sampler: Sampler, batch: Batch, runs: Seq[Run]) -> list[list[int]]:
    parts = [run.split(SEQUENCES[run.sequence].tokens) for run in runs]
    states = [run.settings.state(prompt, done) for run, (prompt, done, _) in zip(runs, parts, strict=True)]
    chains = [chain for _, _, chain in parts]
    result = decoder.extend(batch, sampler, states, chains, [run.count for run in runs])
    assert [state.num_generated for state in states] == [run.num_generated for run in runs]
    return result


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("kind", "device_name"),
    [
        *((Further.LFM2, name) for name in DEVICES),
        *itertools.product((Kind.LLAMA, Kind.GEMMA2, Further.QWEN2_MOE), isas()),
        *(further(kind, EMULATION) for kind in (Kind.LLAMA, Kind.GEMMA2) if EMULATION in DEVICES),
        *((kind, GPU) for kind in (Kind.LLAMA, Kind.GEMMA2) if GPU in DEVICES),
    ],
)
def test_running_ahead_is_single_steps(kind, device_name, threads):
    decoder, sampler = make_decoder(kind, device_name, threads)
    steps = [single_steps(kind, device_name, run) for run in RUNS]
    batch = prefilled_batch(decoder)
    drawn = extend(decoder, sampler, batch, RUNS)
    assert drawn == [each.drawn for each in steps]
    assert extend(decoder, sampler, batch, RUNS) == drawn, "a call changed what the same call reads"
    for run, tokens, each in zip(RUNS, drawn, steps, strict=True):
        *before, last = [*SEQUENCES[run.sequence].tokens[: run.end], *tokens[:-1]]
        position = len(before)
        logits = decoder.forward(fill(batch, [(position, run.sequence, last)], [(run.sequence, position)])).logits
        assert logits.numpy().tobytes() == each.logits, "the cache does not hold the tokens drawn"


def test_every_setting_matters():
    """Else the test above would pass without penalties or noise."""
    run = RUNS[0]
    drawn = [
        single_steps(Kind.LLAMA, isas()[0], replace(run, settings=settings)).drawn
        for settings in [GREEDY, GREEDY_PENALISED, SAMPLED, EVERYTHING]
    ]
    assert len(set(map(tuple, drawn))) == len(drawn)


def test_a_call_that_asks_for_nothing_is_a_pass():
    decoder, sampler = make_decoder(Kind.LLAMA, isas()[0], 1)
    expected = single_steps(Kind.LLAMA, isas()[0], RUNS[3])
    tokens = SEQUENCES[RUNS[3].sequence].tokens
    poison(decoder, range(NUM_BLOCKS))
    batch = make_batch([len(tokens) - 1])
    assert decoder.extend(fill(batch, rows_of(0, tokens[:-1], 0)), sampler, [], [], []) == []
    logits = decoder.forward(fill(batch, rows_of(0, tokens, len(tokens) - 1), [(0, len(tokens) - 1)])).logits
    assert logits.numpy().tobytes() == expected.logits


@pytest.mark.parametrize("device_name", DEVICES)
def test_a_draw_that_fails_ends_its_own_run_only(device_name):
    """One state bans every token; another draws a token whose embedding is NaN."""
    alone = single_steps(Kind.LLAMA, device_name, RUNS[2]).drawn
    nan_id = next(token_id for token_id in range(VOCAB_SIZE) if token_id not in alone)
    decoder, sampler = make_decoder.__wrapped__(Kind.LLAMA, device_name, 1)
    weights = load_checkpoint(random_checkpoint(Kind.LLAMA)).weights()
    name, embedding = next((name, values.copy()) for name, values in weights if "embed" in name)
    embedding[nan_id] = np.nan
    decoder.load(name, embedding)

    ban_all = Settings(logit_bias=tuple((token_id, -np.inf) for token_id in range(VOCAB_SIZE)))
    lure = replace(GREEDY, logit_bias=((nan_id, 1e6),))
    runs = [replace(RUNS[0], settings=ban_all), replace(RUNS[1], settings=lure), RUNS[2]]
    batch = prefilled_batch(decoder)
    batch.num_logits = len(runs)
    assert extend(decoder, sampler, batch, runs) == [[], [nan_id], alone]
