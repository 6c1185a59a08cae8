"""An invalid run-ahead is refused with the name of the bad field, before anything is written."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch, Decoder, Device, Sampler, SamplingState, isas
from tests.harness.models.checkpoints import CONTEXT_LENGTH, VOCAB_SIZE, Kind, random_checkpoint
from tests.native.harness.sampling_reference import Settings

NUM_BLOCKS = CONTEXT_LENGTH // BLOCK_SIZE + 1
NUM_PROMPT = BLOCK_SIZE + 5
LAST = NUM_PROMPT + 2  # position of the row that draws, after a chain of three
OTHER_TOKEN = 99


@dataclass(frozen=True)
class Call:
    """What is passed to extend: two rows of one sequence, the last one asked."""

    positions: tuple[int, ...] = (LAST - 1, LAST)
    asked: tuple[int, ...] = (1,)
    max_blocks: int = 3
    num_tabled: int = 2  # blocks that the sequence has
    next_block: int = -1
    states: tuple[SamplingState | None, ...] = (Settings().state([7] * NUM_PROMPT),)
    chains: tuple[tuple[int, ...], ...] = ((7, 7, 7),)
    counts: tuple[int, ...] = (5,)
    masks: tuple[np.ndarray | None, ...] = ()

    def batch(self) -> Batch:
        batch = Batch(max_rows=LAST + 1, max_sequences=1, max_blocks=self.max_blocks)
        batch.block_tables[0] = self.next_block
        batch.block_tables[0, : self.num_tabled] = np.arange(self.num_tabled)
        batch.positions[: len(self.positions)] = self.positions
        batch.token_ids[:] = OTHER_TOKEN
        batch.logit_rows[: len(self.asked)] = self.asked
        batch.num_rows, batch.num_sequences, batch.num_logits = len(self.positions), 1, len(self.asked)
        return batch

    def run(self, decoder: Decoder, sampler: Sampler) -> list[list[int]]:
        return decoder.extend(self.batch(), sampler, self.states, self.chains, self.counts, self.masks)


def masks_of(rows: int, words: int) -> np.ndarray:
    """Masks that forbid nothing."""
    return np.full((rows, words), 0xFFFFFFFF, np.uint32)


GOOD = Call()
TWICE = replace(GOOD, asked=(1, 1), states=GOOD.states * 2, chains=GOOD.chains * 2, counts=(5, 2))
AT_THE_END = replace(
    GOOD,
    positions=(CONTEXT_LENGTH - 1,),
    asked=(0,),
    max_blocks=NUM_BLOCKS,
    num_tabled=NUM_BLOCKS,
    states=(Settings().state([7] * CONTEXT_LENGTH),),
    chains=((),),
    counts=(2,),
)

BAD_CALLS = {
    r"counts\[0\] is 0; it must be in 1 \.\.\. 57": replace(GOOD, counts=(0,)),
    r"counts\[0\] is 58; it must be in 1 \.\.\. 57": replace(GOOD, counts=(58,)),
    r"counts\[0\] is 2; it must be in 1 \.\.\. 1": AT_THE_END,
    r"counts\[0\] is 5; it must be 1, as row 0 is not the last": replace(GOOD, asked=(0,), chains=((7, 7),)),
    r"counts\[1\] is 2; it must be 1, as row 1 .* another state draws on": TWICE,
    r"block_tables\[0, 2\] is -1; it must be in 0 \.\.\. 32": replace(GOOD, counts=(26,)),
    r"block_tables\[0, 2\] is 33; it must be in 0 \.\.\. 32": replace(GOOD, counts=(26,), next_block=NUM_BLOCKS),
    r"positions\[1\] is 96; it must be in 0 \.\.\. 95": replace(GOOD, positions=(95, 96)),
    r"logit_rows\[0\] is 2; it must be in 0 \.\.\. 1": replace(GOOD, asked=(2,)),
    r"states has 1 entries; it must have one for each of the batch's 2 asked rows": replace(GOOD, asked=(0, 1)),
    r"chains has 0 entries; it must have one for each of the 1 states": replace(GOOD, chains=()),
    r"counts has 2 entries; it must have one for each of the 1 states": replace(GOOD, counts=(1, 1)),
    r"masks has 2 entries; it must have one for each of the 1 states": replace(GOOD, masks=(None, None)),
    r"masks\[0\]: must have two dimensions and 1 rows": replace(GOOD, counts=(1,), masks=(masks_of(2, 16),)),
    r"masks\[0\]: rows of 15 words; the vocabulary needs 16": replace(GOOD, counts=(1,), masks=(masks_of(1, 15),)),
    r"counts\[0\] is 5; it must be in 1 \.\.\. 1": replace(GOOD, masks=(masks_of(1, 16),)),
    r"states: must not hold None": replace(GOOD, states=(None,)),
    r"states\[0\]: token id 512 is outside the vocabulary of 512": replace(
        GOOD, states=(Settings(logit_bias=((VOCAB_SIZE, 1.0),)).state([7] * NUM_PROMPT),)
    ),
    r"states\[0\]: guidance_scale must be 1 where draws run ahead": replace(
        GOOD, states=(Settings(guidance_scale=2.0).state([7] * NUM_PROMPT),)
    ),
    r"chains\[0\]: token id 512 is outside the vocabulary of 512": replace(GOOD, chains=((7, VOCAB_SIZE, 7),)),
    r"chains\[0\]: token id -1 is outside the vocabulary of 512": replace(GOOD, chains=((7, 7, -1),)),
    r"chains\[0\]: 37 tokens of history and 2 of the chain must end .* position 39": replace(GOOD, chains=((7, 7),)),
}


@dataclass(frozen=True)
class Engine:
    """A decoder with its sampler."""

    decoder: Decoder
    sampler: Sampler

    def next_logits(self) -> bytes:
        """The logits of the row after the cached ones."""
        batch = replace(GOOD, positions=(LAST + 1,), asked=(0,)).batch()
        return self.decoder.forward(batch).logits.numpy().tobytes()


@pytest.fixture(scope="module")
def empty_engine() -> Engine:
    checkpoint, device = load_checkpoint(random_checkpoint(Kind.LLAMA)), Device.cpu(isas()[0], 1)
    decoder = load_decoder(checkpoint, device, weights="f32", kv="f32", num_blocks=NUM_BLOCKS)
    return Engine(decoder, Sampler(device))


@pytest.fixture
def engine(empty_engine) -> Engine:
    batch = replace(GOOD, positions=tuple(range(LAST + 1)), asked=()).batch()
    batch.token_ids[:] = 7
    empty_engine.decoder.forward(batch)
    return empty_engine


@pytest.mark.parametrize(("message", "call"), BAD_CALLS.items(), ids=BAD_CALLS)
def test_a_bad_call_names_the_field_and_writes_nothing(engine, message, call):
    before = engine.next_logits()
    with pytest.raises(ValueError, match=message):
        call.run(engine.decoder, engine.sampler)
    assert engine.next_logits() == before


def test_a_sampler_of_another_device_is_refused(engine):
    before = engine.next_logits()
    with pytest.raises(ValueError, match="sampler: is on another device than the decoder"):
        GOOD.run(engine.decoder, Sampler(Device.cpu(isas()[0], 1)))
    assert engine.next_logits() == before


@pytest.mark.parametrize(
    "call",
    [
        replace(GOOD, counts=(25,)),  # writes the last position of the last block
        replace(GOOD, counts=(57,), num_tabled=3),
        replace(AT_THE_END, counts=(1,)),
        replace(TWICE, counts=(5, 1)),
        replace(GOOD, asked=(0,), chains=((7, 7),), counts=(1,)),
    ],
)
def test_a_call_at_the_limit_is_served(engine, call):
    drawn = call.run(engine.decoder, engine.sampler)
    assert [len(tokens) for tokens in drawn] == list(call.counts)


def test_a_good_call_writes(engine):
    """Else the tests of bad calls could not fail."""
    before = engine.next_logits()
    GOOD.run(engine.decoder, engine.sampler)
    assert engine.next_logits() != before
