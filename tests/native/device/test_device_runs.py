"""A run's draws stay on the device: they are those of a call for each, and the host waits once for them all."""

from dataclasses import dataclass, field, replace

import pytest

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import Batch, Decoder, Sampler, SamplingState
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.native.harness.devices import DEVICES, EMULATION, count_uploads, count_waits, make_device, needs_emulation
from tests.native.harness.sampling_reference import Settings

NUM_DRAWS = 4
NUM_SEQUENCES = 18  # more than a device's sampler takes at once
BLOCKS_EACH = 2
LURED = (50, 51)

GREEDY = Settings(temperature=0.0)
SAMPLED = Settings(seed=5, temperature=1.4)
TRUNCATED = Settings(seed=6, temperature=1.2, top_k=50, top_p=0.95, min_p=0.002)
# Few tokens come into question, so that one that was drawn in the run is drawn again, or no longer.
REPEATING = replace(SAMPLED, logit_bias=((LURED[0], 60.0), (LURED[1], 59.0)))
PENALISED = replace(REPEATING, temperature=0.0, frequency_penalty=3.0, presence_penalty=0.5)
REPELLED = replace(PENALISED, temperature=0.7, repetition_penalty=1.1)
STOPPING = replace(PENALISED, min_tokens=5, stop_ids=LURED)  # three of them are generated
STEPPING = Settings(
    seed=7, temperature=1.3, xtc_probability=0.5, xtc_threshold=0.004, typical_p=0.9, tfs_z=0.99, top_k=40
)
SETTINGS = [STEPPING, GREEDY, SAMPLED, TRUNCATED, REPEATING, PENALISED, REPELLED, STOPPING]


@dataclass(frozen=True)
class Sequence:
    """Four tokens of prompt, three generated ones, and those drawn after them."""

    state: SamplingState
    index: int
    num_draws: int
    history: tuple[int, ...]
    drawn: list[int] = field(default_factory=list)

    @property
    def blocks(self) -> list[int]:
        first = self.index * BLOCKS_EACH
        return [first, first + 1]

    @property
    def has_more(self) -> bool:
        return len(self.drawn) < self.num_draws

    @property
    def last_row(self) -> tuple[list[int], int]:
        """The token that its next draw follows, and its position."""
        tokens = [*self.history, *self.drawn]
        return tokens[-1:], len(tokens) - 1


def make_sequences(num_draws: int = NUM_DRAWS) -> list[Sequence]:
    """Of all settings; some draw less often than asked for, and some may not draw one token next."""
    sequences = []
    for index in range(NUM_SEQUENCES):
        history = (30 + index, 40, 50, 60 - index, 33, 35, 37)
        state = SETTINGS[index % len(SETTINGS)].state(history[:4], history[4:])
        if index % 3 == 0:
            state.forbid([LURED[0]])
        sequences.append(Sequence(state, index, num_draws - index % 3 if num_draws > 3 else num_draws, history))
    return sequences


def make_decoder(device_name: str) -> tuple[Decoder, Sampler]:
    device = make_device(device_name, threads=1)
    checkpoint = load_checkpoint(further_checkpoint(Further.SMOLLM3))
    num_blocks = NUM_SEQUENCES * BLOCKS_EACH
    decoder = load_decoder(checkpoint, device, weights="bf16", kv="bf16", num_blocks=num_blocks)
    sampler = Sampler(device)
    return decoder, sampler


def prefill(decoder: Decoder, sequences: list[Sequence]) -> None:
    """All but the last token of each."""
    batch = Batch(max_rows=256, max_sequences=NUM_SEQUENCES, max_blocks=BLOCKS_EACH)
    for sequence in sequences:
        batch.append(list(sequence.history[:-1]), position=0, blocks=sequence.blocks, num_logits=0)
    decoder.forward(batch)


def extend(decoder: Decoder, sampler: Sampler, sequences: list[Sequence], counts: list[int]) -> list[list[int]]:
    batch = Batch(max_rows=NUM_SEQUENCES, max_sequences=NUM_SEQUENCES, max_blocks=BLOCKS_EACH)
    for sequence in sequences:
        token_ids, position = sequence.last_row
        batch.append(token_ids, position=position, blocks=sequence.blocks, num_logits=1)
    states = [sequence.state for sequence in sequences]
    return decoder.extend(batch, sampler, states, [sequence.drawn for sequence in sequences], counts)


def draw_singly(decoder: Decoder, sampler: Sampler) -> list[list[int]]:
    """A call for each draw, in which the tokens drawn before come from the host."""
    sequences = make_sequences()
    prefill(decoder, sequences)
    while drawing := [sequence for sequence in sequences if sequence.has_more]:
        drawn = extend(decoder, sampler, drawing, [1] * len(drawing))
        for sequence, token_ids in zip(drawing, drawn, strict=True):
            sequence.drawn.extend(token_ids)
    return [sequence.drawn for sequence in sequences]


def draw_ahead(decoder: Decoder, sampler: Sampler, num_draws: int = NUM_DRAWS) -> list[list[int]]:
    sequences = make_sequences(num_draws)
    prefill(decoder, sequences)
    return extend(decoder, sampler, sequences, [sequence.num_draws for sequence in sequences])


@pytest.mark.parametrize("device_name", DEVICES)
def test_a_run_draws_what_one_call_per_draw_does(device_name):
    decoder, sampler = make_decoder(device_name)
    singly = draw_singly(decoder, sampler)
    for _ in range(3):  # run as enqueued, recorded, replayed
        assert draw_ahead(decoder, sampler) == singly


def test_the_settings_act_within_a_run():
    """Else the test above would pass without penalties of drawn tokens or a minimum of tokens."""
    *_, repeating, penalised, repelled, stopping = draw_ahead(*make_decoder(DEVICES[0]))[: len(SETTINGS)]
    assert {*repeating} <= {*LURED}
    assert len({*penalised}) > 1
    assert len({*repelled}) > 1
    assert not {*LURED} & {*stopping[:2]}
    assert {*LURED} & {*stopping[2:]}


@pytest.mark.parametrize("device_name", DEVICES)
def test_more_states_than_rows_may_draw(device_name):
    decoder, sampler = make_decoder(device_name)
    sequence = make_sequences()[0]
    prefill(decoder, [sequence])
    states = [settings.state(sequence.history[:4], sequence.history[4:]) for settings in SETTINGS]
    token_ids, position = sequence.last_row
    batch = Batch(max_rows=len(states), max_sequences=1, max_blocks=BLOCKS_EACH)
    batch.append(token_ids, position=position, blocks=sequence.blocks, num_logits=1)
    alone = [decoder.extend(batch, sampler, [state], [[]], [1])[0] for state in states]
    batch.logit_rows[:] = 0
    batch.num_logits = len(states)
    assert decoder.extend(batch, sampler, states, [[]] * len(states), [1] * len(states)) == alone


@needs_emulation
def test_the_host_waits_once_for_a_run_of_any_length():
    decoder, sampler = make_decoder(EMULATION)
    sequences = make_sequences()
    prefill(decoder, sequences)
    costs = []
    for num_draws in [3, 2, 3]:
        waits, uploads = count_waits(), count_uploads()
        extend(decoder, sampler, sequences, [num_draws] * NUM_SEQUENCES)
        costs.append((count_waits() - waits, count_uploads() - uploads))
    assert costs[1] == costs[2]
    assert costs[1][0] == 1
