"""Calls with numbers of slots and of positions of states; run by `extreme_numbers`."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from services.engine.checkpoint.model_config import GatedDelta
from services.engine.decoder.native import Batch, Decoder, DecoderConfig, Device, testing
from tests.native.harness.extremes.extreme_places import wrapped
from tests.native.harness.random_models import PLAIN, random_weights

_DELTA = GatedDelta(key_heads=1, value_heads=2, key_dim=32, value_dim=32, taps=4)
_MODEL = replace(PLAIN, layers=(_DELTA,))
_RING_ROWS = 8


def state_calls(device: Device) -> Iterable[tuple[str, Callable[[int], object]]]:
    """One for each number that can be said, under the name of its function and argument."""
    decoder = _new_decoder(device)
    decoder.allocate_states(num_slots=2, ring_rows=_RING_ROWS)
    page = np.zeros(DecoderConfig(_MODEL).state_bytes(_RING_ROWS), np.uint8)

    def new_batch(**changes: Any) -> Batch:
        batch = Batch(max_rows=4, max_sequences=1, max_blocks=1)
        batch.append([1, 2], position=2, blocks=[0], num_logits=1, **{"slot": 0, "state_position": 2, **changes})
        return batch

    def forward(**changes: Any) -> None:
        decoder.forward(new_batch(**changes))

    def keep(number: int) -> None:
        for kept in ((number, 2), (1, number)):
            with suppress(ValueError):
                forward(kept=kept)

    def set_places(number: int) -> None:
        for field in range(5):
            batch = new_batch(kept=(1, 2))
            batch.states[0, field] = wrapped(number)
            with suppress(ValueError):
                decoder.forward(batch)

    for field in ("key_heads", "value_heads", "key_dim", "value_dim", "taps"):
        yield f"DecoderConfig.layers.{field}", lambda number, field=field: _configure(field, number)  # type: ignore[misc]
    yield "DecoderConfig.state_bytes.ring_rows", lambda number: DecoderConfig(_MODEL).state_bytes(number)
    yield "DecoderConfig.state_bytes.ranks", lambda number: DecoderConfig(_MODEL).state_bytes(_RING_ROWS, number)
    yield "DecoderConfig.position_bytes.ranks", lambda number: DecoderConfig(_MODEL).position_bytes("bf16", number)
    for field in ("slot", "state_position", "certain"):
        yield f"Batch.append.{field}", lambda number, field=field: forward(**{field: number})  # type: ignore[misc]
    yield "Batch.append.kept", keep
    yield "Batch.states", set_places
    new_states = {"num_slots": 1, "ring_rows": 8}
    for field in new_states:
        yield (
            f"Decoder.allocate_states.{field}",
            lambda number, field=field: _new_decoder(device).allocate_states(**{**new_states, field: number}),  # type: ignore[misc]
        )
    yield "Decoder.copy_state.source", lambda number: decoder.copy_state(number, 0)
    yield "Decoder.copy_state.target", lambda number: decoder.copy_state(0, number)
    yield "Decoder.read_state.slot", lambda number: decoder.read_state(number, page)
    yield "Decoder.write_state.slot", lambda number: decoder.write_state(number, page)
    yield "poison_states.slots", lambda number: testing.poison_states(decoder, [number])


def _new_decoder(device: Device) -> Decoder:
    decoder = Decoder(device, DecoderConfig(_MODEL), weights="f32", kv="f32", num_blocks=1)
    for name, values in random_weights(_MODEL).items():
        decoder.load(name, values)
    return decoder


def _configure(field: str, number: int) -> DecoderConfig:
    return DecoderConfig(replace(_MODEL, layers=(replace(_DELTA, **{field: number}),)))  # type: ignore[arg-type]
