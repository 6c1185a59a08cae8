"""The roofline: the bytes and products of a pass, and the least time for them."""

from dataclasses import replace

import pytest

from services.bench.decoder_figures import ROWS, measure_decoder
from services.bench.roofline import Roofline, Work
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Attention, Experts, GatedDelta
from services.engine.checkpoint.weight_shapes import count_active_parameters, count_parameters, weight_shapes
from services.engine.config import EngineConfig, resolve_isa
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import Device
from services.engine.loaded_model import LoadedModel
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.models.further_checkpoints import Further, further_checkpoint


def work(kind: Kind, position: int, rows: int, asked: int) -> Work:
    checkpoint = load_checkpoint(random_checkpoint(kind))
    decoder = load_decoder(checkpoint, Device.cpu(resolve_isa(), 1), weights="bf16", kv="bf16", num_blocks=1)
    return Work.of(decoder, checkpoint.config, position=position, rows=rows, num_logits=asked)


def test_every_matrix_weight_is_multiplied_once_for_each_row():
    config = load_checkpoint(random_checkpoint(Kind.LLAMA)).config
    vectors = sum(shape[0] for shape in weight_shapes(config).values() if len(shape) == 1)
    matrices = count_parameters(config) - vectors - config.vocab_size * config.hidden_size  # the embedding is looked up
    assert work(Kind.LLAMA, 5, 1, 1).products == 2 * matrices
    assert work(Kind.LLAMA, 5, 7, 7).products == 7 * work(Kind.LLAMA, 5, 1, 1).products
    unasked = work(Kind.LLAMA, 5, 7, 1)
    assert work(Kind.LLAMA, 5, 7, 7).products - unasked.products == 2 * 6 * config.vocab_size * config.hidden_size


def test_a_row_is_multiplied_with_the_experts_that_it_goes_to():
    config = load_checkpoint(random_checkpoint(Kind.LLAMA)).config
    experts = Experts(count=8, per_token=2, size=48, are_normalised=False)
    mixture = replace(config, intermediate_size=0, experts=experts)
    dense = replace(config, intermediate_size=2 * experts.size)
    of_router = config.num_layers * experts.count * config.hidden_size
    assert count_active_parameters(mixture) == count_active_parameters(dense) + of_router


@pytest.mark.parametrize("kind", [Kind.LLAMA, Kind.GEMMA2])  # all layers see all, every other one has a window
def test_rows_attend_as_alone_but_read_keys_and_values_once(kind: Kind):
    together, alone = work(kind, 40, 5, 5), [work(kind, 40 + row, 1, 1) for row in range(5)]
    assert together.attention == sum(each.attention for each in alone)
    assert together.bytes == alone[-1].bytes


def test_a_window_bounds_the_attention():
    config = load_checkpoint(random_checkpoint(Kind.MISTRAL)).config
    per_position = 4 * config.num_heads * config.head_dim * config.num_layers
    window = max(layer.window for layer in config.layers if isinstance(layer, Attention))
    first, last = work(Kind.MISTRAL, 0, 1, 1), work(Kind.MISTRAL, window + 9, 1, 1)
    assert first.attention == per_position
    assert last.attention == per_position * window


def test_passes_over_a_state_are_measured_and_read_it_twice():
    config = EngineConfig(
        model=further_checkpoint(Further.QWEN3_5),
        isa=resolve_isa(),
        threads=1,
        weights="bf16",
        kv_blocks=8,
        max_sequences=1,
    )
    model = LoadedModel.load(config)
    states = [layer for layer in model.checkpoint.config.layers if isinstance(layer, GatedDelta)]
    numbers = sum(layer.value_heads * layer.key_dim * layer.value_dim for layer in states)
    figures = measure_decoder(model, context=16, runs=1)
    assert figures.step_bytes == model.decoder.weight_bytes + 17 * model.decoder.kv_bytes_per_token + 2 * 4 * numbers
    assert set(figures.pass_seconds) == set(ROWS)


def test_the_greater_of_reading_and_computing_is_the_least_time():
    machine = Roofline(read_rate=10.0, product_rate=100.0, attention_rate=50.0)
    assert machine.seconds(Work(bytes=30, products=100, attention=50)) == 3.0
    assert machine.seconds(Work(bytes=10, products=100, attention=50)) == 2.0
    assert Roofline(10.0, None, None).seconds(Work(bytes=10, products=10**9, attention=10**9)) == 1.0
