"""Calls with numbers of an attached drafter; run by `extreme_numbers`."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from services.engine.checkpoint.model_config import Attention, FeatureBlock, Features, ModelConfig
from services.engine.decoder.native import Batch, Decoder, DecoderConfig, Device, Pass
from tests.native.harness.random_models import PLAIN, random_weights

_FEATURES = Features(count=2, width=PLAIN.hidden_size, head_size=3)
_DRAFTER = replace(PLAIN, layers=(Attention(),), features=_FEATURES)


def feature_calls(device: Device) -> Iterable[tuple[str, Callable[[int], object]]]:
    """One for each number that can be said, under the name of its function and argument."""
    target = _filled(Decoder(device, DecoderConfig(PLAIN), weights="f32", kv="f32", num_blocks=1), PLAIN)
    target.keep_features([0, 2])
    drafter = Decoder(device, DecoderConfig(_DRAFTER), weights="f32", kv="f32", num_blocks=1, target=target)
    _filled(drafter, _DRAFTER).set_head_tokens([0, 1, 2])

    def results() -> Pass:
        batch = Batch(max_rows=2, max_sequences=1, max_blocks=1)
        batch.append([1, 2], position=0, blocks=[0], num_logits=0)
        return target.forward(batch)

    def other_boundaries(number: int) -> None:
        other = Decoder(device, DecoderConfig(PLAIN), weights="f32", kv="f32", num_blocks=1)
        other.keep_features([number])

    for field in ("count", "width", "head_size"):
        yield f"DecoderConfig.features.{field}", lambda number, field=field: _configure(field, number)  # type: ignore[misc]
    for field in ("size", "mask_token", "markov_rank"):
        yield f"DecoderConfig.features.block.{field}", lambda number, field=field: _block(field, number)  # type: ignore[misc]
    yield "Decoder.keep_features.boundaries", other_boundaries
    yield "Decoder.set_head_tokens.token_ids", lambda number: drafter.set_head_tokens([0, 1, number])
    yield "Decoder.read_features.rows", lambda number: drafter.read_features(results(), [0, number])


def _filled(decoder: Decoder, config: ModelConfig) -> Decoder:
    for name, values in random_weights(config).items():
        decoder.load(name, values)
    return decoder


def _block(field: str, number: int) -> DecoderConfig:
    block = replace(FeatureBlock(size=4, mask_token=1), **{field: number})  # type: ignore[arg-type]
    return DecoderConfig(replace(_DRAFTER, features=replace(_FEATURES, block=block)))


def _configure(field: str, number: int) -> DecoderConfig:
    return DecoderConfig(replace(_DRAFTER, features=replace(_FEATURES, **{field: number})))  # type: ignore[arg-type]
