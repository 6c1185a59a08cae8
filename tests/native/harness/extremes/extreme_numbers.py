"""A process that calls each function of the native module with extreme numbers; run by `test_extreme_numbers`.

It prints the name of each call before it makes it, so that the last line names the one that ended the process.
"""

import faulthandler
import resource
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from services.engine.checkpoint.model_config import Attention
from services.engine.config import CPU_KV_FORMATS, CPU_WEIGHT_FORMATS, KV_FORMATS, WEIGHT_FORMATS
from services.engine.decoder.native import (
    Batch,
    Decoder,
    DecoderConfig,
    Device,
    DeviceError,
    Logits,
    NoiseIds,
    ReadProbe,
    Sampler,
    SamplingState,
    derive_seed,
    testing,
)
from services.engine.decoder.native.testing import KvLayer, Operations, PackedWeight
from services.engine.sampling_params import SAMPLING_NUMBERS
from tests.native.harness.devices import is_cuda, make_device
from tests.native.harness.extremes.extreme_blocks import block_calls
from tests.native.harness.extremes.extreme_experts import expert_calls
from tests.native.harness.extremes.extreme_features import feature_calls
from tests.native.harness.extremes.extreme_groups import grouped_calls
from tests.native.harness.extremes.extreme_places import PLACES, places, wrapped
from tests.native.harness.extremes.extreme_states import state_calls
from tests.native.harness.extremes.extreme_timings import timing_calls
from tests.native.harness.random_models import LATENT, PLAIN, PagedDecoder, random_tokens, rope
from tests.native.harness.sampling_reference import EVERY_STEP

NUMBERS = (
    *(-(2**63), -(2**31), -1, 0, 1, 2**12, 2**20, 2**24, 2**25, 2**28, 2**31 - 2, 2**31 - 1, 2**31, 2**32),
    *(2**62, 2**63 - 1, 2**64 - 1),
)
_NUMBERS_OF_GPUS = (-(2**31), -1, 0, 1, 2**12, 2**24, 2**28, 2**31 - 1, 2**32, 2**63 - 1)
"""Fewer, since before any kernel is launched they are checked in the code that a CPU runs with all of them."""
REFUSALS = (ValueError, TypeError, IndexError, MemoryError, DeviceError)
_MOST_MEMORY = 3 << 28  # bytes more than at the start: 2^28 floats never fit
_VOCAB = PLAIN.vocab_size

Call = Callable[[int], object]


class World:
    """A device and what lives on it, small enough that all of it is soon made anew."""

    def __init__(self, device_name: str) -> None:
        self.device = make_device(device_name, threads=2)
        self.paged = PagedDecoder(PLAIN, self.device, "bf16", tokens=random_tokens(PLAIN, 2, 40))
        self.decoder = self.paged.decoder
        self.sampler = Sampler(self.device)
        self.kv_formats = KV_FORMATS if is_cuda(device_name) else CPU_KV_FORMATS
        self.weight_formats = WEIGHT_FORMATS if is_cuda(device_name) else CPU_WEIGHT_FORMATS

    def answer(self) -> Any:
        """What must stay the same."""
        logits = self.paged.forward([(sequence, position) for sequence in range(2) for position in range(3)])
        states = [EVERY_STEP.state(prompt=[1, 2]) for _ in range(2)]
        samples = self.sampler.sample(testing.make_logits(self.device, logits[:2]), states, [[], []])
        return logits.tobytes(), samples.token_ids.tolist()

    def batch(self, **sizes: int) -> Batch:
        return Batch(**{"max_rows": 8, "max_sequences": 2, "max_blocks": 2, **sizes})

    def calls(self) -> Mapping[str, Call]:
        """One for each number that can be said, under the name of its function and argument."""
        return {**dict(self._of_no_device()), **self.calls_of_devices()}

    def calls_of_devices(self) -> Mapping[str, Call]:
        own = (self._of_devices, self._of_batches, self._of_decoders, self._of_sampling, self._of_operations)
        others = (expert_calls, grouped_calls, timing_calls)
        parts = (
            *(some() for some in own),
            *(some(self.device) for some in others),
            block_calls(self.decoder),
            state_calls(self.device),
            feature_calls(self.device),
        )
        return {name: call for part in parts for name, call in part}

    def _of_no_device(self) -> Iterable[tuple[str, Call]]:
        yield "philox4x32.counter", lambda number: testing.philox4x32((number,) * 4, (0, 0))
        yield "philox4x32.key", lambda number: testing.philox4x32((0,) * 4, (number,) * 2)
        yield "gumbel.words", lambda number: testing.gumbel(np.full(3, number % 2**32, np.uint32))
        yield "gumbel_noise.seed", lambda number: testing.gumbel_noise(number, 0, 0, 9)
        yield "gumbel_noise.position", lambda number: testing.gumbel_noise(0, number, 0, 9)
        yield "gumbel_noise.stream", lambda number: testing.gumbel_noise(0, 0, number, 9)
        yield "gumbel_noise.count", lambda number: testing.gumbel_noise(0, 0, 0, number)
        yield "derive_seed.seed", lambda number: derive_seed(number, 1)
        yield "derive_seed.sample", lambda number: derive_seed(1, number)

    def _of_devices(self) -> Iterable[tuple[str, Call]]:
        yield "Device.cpu.threads", lambda number: Device.cpu("portable", number)
        yield "Device.cpu.many_rows", lambda number: Device.cpu("portable", 1, many_rows=number)
        yield "Device.cuda.threads", lambda number: Device.cuda(0, number)
        yield "Device.cuda.index", lambda number: Device.cuda(number, 1)
        yield "Device.multiply_registers.rounds", lambda number: self.device.multiply_registers("f32", number)
        yield "ReadProbe.bytes", lambda number: ReadProbe(self.device, number).read(False)

    def _of_batches(self) -> Iterable[tuple[str, Call]]:
        def append(field: str) -> Call:
            return lambda number: self._append(**{field: number})

        def set_count(field: str) -> Call:
            def call(number: int) -> None:
                batch = self.batch()
                setattr(batch, field, number)
                _try_all(lambda: batch.append([1], position=0, blocks=[0], num_logits=1), lambda: self._forward(batch))

            return call

        def set_entry(field: str) -> Call:
            def call(number: int) -> None:
                batch = self.batch()
                batch.append([1, 2], position=0, blocks=[0], num_logits=2)
                getattr(batch, field)[:] = wrapped(number)
                self._forward(batch)

            return call

        for size in ("max_rows", "max_sequences", "max_blocks"):
            yield f"Batch.{size}", lambda number, size=size: self.batch(**{size: number})  # type: ignore[misc]
        for argument in ("token_ids", "position", "blocks", "num_logits", "adapter"):
            yield f"Batch.append.{argument}", append(argument)
        for count in ("num_rows", "num_sequences", "num_logits"):
            yield f"Batch.{count}", set_count(count)
        for array in ("token_ids", "positions", "sequences", "block_tables", "logit_rows", "adapters"):
            yield f"Batch.{array}", set_entry(array)

    def _append(
        self, token_ids: int = 1, position: int = 0, blocks: int = 0, num_logits: int = 1, adapter: int = -1
    ) -> None:
        batch = self.batch()
        batch.append([token_ids], position=position, blocks=[blocks], num_logits=num_logits, adapter=adapter)
        self._forward(batch)

    def _forward(self, batch: Batch) -> None:
        self.decoder.forward(batch).logits.numpy()

    def _of_decoders(self) -> Iterable[tuple[str, Call]]:
        decoder, device = self.decoder, self.device
        sizes = ("hidden_size", "intermediate_size", "num_heads", "num_kv_heads", "head_dim", "layer_input_size")
        for field in (*sizes, "vocab_size", "max_position"):
            yield f"DecoderConfig.{field}", lambda number, field=field: self._configure(**{field: number})  # type: ignore[misc]
        for name in ("mlp_size", "window", "rope", "head_dim", "num_kv_heads", "kv_layer", "target_layer"):
            yield f"DecoderConfig.layers.{name}", lambda number, name=name: self._configure_layer(**{name: number})  # type: ignore[misc]
        for name in ("query_rank", "rank", "turning", "key_dim", "value_dim"):
            yield f"DecoderConfig.layers.{name}", lambda number, name=name: self._configure_latent(**{name: number})  # type: ignore[misc]
        yield "Decoder.num_blocks", lambda number: self._new_decoder(num_blocks=number)
        yield "Decoder.allocate_cache.num_blocks", lambda number: self._new_decoder().allocate_cache(number)
        yield "Decoder.load_rows.first_row", self._load_rows
        yield "Decoder.shorten_head.token_ids", self._shorten_head
        most = {"max_rows": 1, "max_blocks": 1, "seconds": 0.01}
        yield "Decoder.record_passes.max_rows", lambda number: decoder.record_passes(**{**most, "max_rows": number})  # type: ignore[arg-type]
        yield "Decoder.record_passes.max_blocks", lambda number: decoder.record_passes(**{**most, "max_blocks": number})  # type: ignore[arg-type]
        for field in ("max_rows", "max_logits", "max_sequences", "max_blocks"):
            sizes_of = {"max_rows": 4, "max_logits": 4, "max_sequences": 1, "max_blocks": 1}
            yield (
                f"Decoder.reserve.{field}",
                lambda number, field=field, sizes_of=sizes_of: decoder.reserve(**{**sizes_of, field: number}),  # type: ignore[misc]
            )
        yield "Decoder.extend.chains", lambda number: self._extend(chain=number)
        yield "Decoder.extend.counts", lambda number: self._extend(count=number)
        yield "Decoder.extend.masks", lambda number: self._extend(mask=number)
        yield "Decoder.padded_rows.num_rows", decoder.padded_rows
        yield "Pass.hidden_states.first_row", lambda number: self._hidden_states(number, 1)
        yield "Pass.hidden_states.num_rows", lambda number: self._hidden_states(0, number)
        yield "Logits.row.row", lambda number: testing.make_logits(device, np.zeros((2, 3), np.float32)).row(number)

    def _hidden_states(self, first_row: int, num_rows: int) -> None:
        batch = self.batch()
        batch.append([1, 2], position=0, blocks=[0], num_logits=1)
        self.decoder.forward(batch).hidden_states(first_row, num_rows)

    def _configure(self, **changes: Any) -> DecoderConfig:
        DecoderConfig(PLAIN)  # can be made; with the change it may not
        return DecoderConfig(replace(PLAIN, **changes))

    def _configure_layer(self, **changes: Any) -> DecoderConfig:
        return self._configure(layers=(Attention(), Attention(), Attention(**changes)))

    def _configure_latent(self, **changes: Any) -> DecoderConfig:
        config = replace(PLAIN, layers=(LATENT,), ropes=(rope(32),))
        DecoderConfig(config)
        return DecoderConfig(replace(config, layers=(replace(LATENT, **changes),)))

    def _new_decoder(self, num_blocks: int | None = None) -> Decoder:
        return Decoder(self.device, DecoderConfig(PLAIN), weights="f32", kv="f32", num_blocks=num_blocks)

    def _shorten_head(self, number: int) -> None:
        _try_all(lambda: self.decoder.shorten_head(_ids(number)[:1]), lambda: self.decoder.shorten_head(_ids(0)[:0]))

    def _load_rows(self, number: int) -> None:
        self._new_decoder().load_rows("lm_head", number, np.ones((2, PLAIN.hidden_size), np.float32))

    def _extend(self, chain: int = 1, count: int = 1, mask: int | None = None) -> None:
        batch = self.batch()
        batch.append([1, chain % _VOCAB], position=0, blocks=[0], num_logits=1)
        masks = [None if mask is None else np.full((1, -(-_VOCAB // 32)), mask % 2**32, np.uint32)]
        state = EVERY_STEP.state(prompt=[1])
        self.decoder.extend(batch, self.sampler, [state], [[chain]], [count], masks)

    def _of_sampling(self) -> Iterable[tuple[str, Call]]:
        counts = [number.name for number in SAMPLING_NUMBERS if number.kind is int]
        for field in ("seed", *counts, "min_tokens", "num_candidates"):
            yield f"SamplingState.{field}", lambda number, field=field: self._draw(**{field: number})  # type: ignore[misc]
        for field in ("stop_ids", "suppressed_ids", "begin_suppressed_ids", "dry_breaker_ids"):
            yield f"SamplingState.{field}", lambda number, field=field: self._draw(**{field: (number,)})  # type: ignore[misc]
        yield "SamplingState.bad_words", lambda number: self._draw(bad_words=((2, number),))
        yield "SamplingState.logit_bias", lambda number: self._draw(logit_bias=((number, 1.0),))
        yield "SamplingState.prompt", lambda number: self._draw_from(EVERY_STEP.state(prompt=[wrapped(number)]))
        for method in ("commit", "forbid"):
            yield f"SamplingState.{method}.token_ids", lambda number, method=method: self._after(method, [number])  # type: ignore[misc]
        yield "SamplingState.truncate.num_generated", lambda number: self._after("truncate", number)
        yield "SamplingState.translate.position", lambda number: self._after("translate", NoiseIds(_ids(1)), number)
        yield "NoiseIds.ids", lambda number: self._after("translate", NoiseIds(_ids(number)), 0)
        yield "Sampler.reserve.vocab_size", self.sampler.reserve
        yield "Sampler.sample.predictions", lambda number: self._sample([number])
        yield "Sampler.sample.masks", lambda number: self._sample([1], mask=number)
        yield "Samples.candidates.row", lambda number: self._sample([1]).candidates(number)

    def _draw(self, **changes: Any) -> None:
        self._draw_from(replace(EVERY_STEP, **{"dry_multiplier": 0.5, **changes}).state(prompt=[1], generated=[2]))

    def _draw_from(self, state: SamplingState) -> None:
        self.sampler.sample(self._logits(1), [state], [[]])
        state.commit([3])
        self.sampler.sample(self._logits(1), [state], [[]])

    def _after(self, method: str, *arguments: Any) -> None:
        state = EVERY_STEP.state(prompt=[1], generated=[2])
        getattr(state, method)(*arguments)
        self._draw_from(state)

    def _sample(self, predictions: list[int], mask: int | None = None) -> Any:
        masks = () if mask is None else (np.full((2, -(-_VOCAB // 32)), mask % 2**32, np.uint32),)
        return self.sampler.sample(self._logits(2), [EVERY_STEP.state(prompt=[1])], [predictions], masks)

    def _logits(self, rows: int) -> Logits:
        return testing.make_logits(self.device, np.zeros((rows, _VOCAB), np.float32))

    def _of_operations(self) -> Iterable[tuple[str, Call]]:
        device, ones = self.device, np.ones((2, 3), np.float32)
        for argument in ("out_features", "in_features"):
            yield f"PackedWeight.{argument}", lambda number, argument=argument: self._pack(**{argument: number})  # type: ignore[misc]
        weight = PackedWeight(device, "f32", 4, 3)
        yield "PackedWeight.store.first_row", lambda number: weight.store(number, ones)
        yield "PackedWeight.embed.token_ids", lambda number: weight.embed(np.array([wrapped(number)], np.int32), 1.0)
        for argument in ("num_blocks", "num_kv_heads", "head_dim", "latent_rank"):
            yield f"KvLayer.{argument}", lambda number, argument=argument: self._layer(**{argument: number})  # type: ignore[misc]
        for method in ("rotate_and_store", "attention", "store_latents"):
            for argument in PLACES:
                yield (
                    f"KvLayer.{method}.{argument}",
                    lambda number, method=method, argument=argument: self._attend(method, **{argument: number}),  # type: ignore[misc]
                )
        yield "KvLayer.attention.window", lambda number: self._attend("attention", window=number)
        yield "KvLayer.attention.ends", lambda number: self._attend("attention", end=number)
        turn, frequencies = Operations.rotary_angles, np.ones(2, np.float32)
        yield "Operations.rotary_angles.positions", lambda number: turn(device, _ids(number)[:1], frequencies, 1.0)

    def _pack(self, out_features: int = 4, in_features: int = 3) -> None:
        for weight_format in self.weight_formats:
            with suppress(*REFUSALS):
                PackedWeight(self.device, weight_format, out_features, in_features)

    def _layer(self, num_blocks: int = 2, num_kv_heads: int = 1, head_dim: int = 8, latent_rank: int = 0) -> KvLayer:
        shape = {"num_blocks": num_blocks, "num_kv_heads": num_kv_heads, "head_dim": head_dim}
        for kv_format in self.kv_formats:
            layer = KvLayer(self.device, kv_format, **shape, latent_rank=latent_rank)
            layer.attention(np.ones((1, 3 * 8), np.float32), *places(), window=0, softcap=0.0, format="f32")
        return layer

    def _attend(self, method: str, window: int = 0, end: int = 0, **where: int) -> None:
        if method == "store_latents":
            self._store_latents(**where)
            return
        layer, qkv = self._layer(), np.ones((1, 3 * 8), np.float32)
        if method == "attention":
            ends = np.array([wrapped(end)], np.int32)
            layer.attention(qkv, *places(**where), window=window, softcap=0.0, format="f32", ends=ends)
            return
        norms = {"qk_norm": "none", "q_norm": None, "k_norm": None, "eps": 0.0, "query_scale": 1.0}
        layer.rotate_and_store(qkv, *places(**where), angles=np.ones((1, 2, 4), np.float32), **norms)  # type: ignore[arg-type]

    def _store_latents(self, **where: int) -> None:
        for kv_format in self.kv_formats:
            layer = KvLayer(self.device, kv_format, num_blocks=2, num_kv_heads=1, head_dim=96, latent_rank=64)
            values, queries = np.ones((1, 96), np.float32), np.ones((1, 1, 40), np.float32)
            numbers: Any = {"angles": np.ones((1, 2, 16), np.float32), "norm": np.ones(64, np.float32)}
            layer.store_latents(values, queries, values, *places(**where), **numbers, eps=0.0, query_scale=1.0)


def _ids(number: int) -> Any:
    return np.full(_VOCAB, wrapped(number), np.int32)


def _try_all(*calls: Callable[[], object]) -> None:
    for call in calls:
        with suppress(*REFUSALS):
            call()


def main(device_name: str) -> None:
    """Make all calls; an exception that refuses nothing ends the process, as a crash does."""
    faulthandler.enable()
    world = World(device_name)
    expected = world.answer()
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + _MOST_MEMORY,) * 2)
    every, numbers = (
        (world.calls(), NUMBERS) if not is_cuda(device_name) else (world.calls_of_devices(), _NUMBERS_OF_GPUS)
    )
    for kind, calls in groupby(every.items(), lambda named: named[0].partition(".")[0]):
        for name, call in calls:
            for number in numbers:
                print(f"{name} = {number}", flush=True)
                with suppress(*REFUSALS):
                    call(number)
        print(f"a pass after all of {kind}", flush=True)
        assert world.answer() == expected, f"what was called of {kind} has changed what comes after it"


if __name__ == "__main__":
    main(*sys.argv[1:])
