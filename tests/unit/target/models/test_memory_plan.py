"""How a budget of memory is shared out among models, before any is loaded."""

from pathlib import Path

import pytest

from services.engine.config import ConfigError, EngineConfig
from services.engine.loaded_model import LoadedModel
from services.target.models.memory_plan import plan_memory, weight_memory
from tests.harness.models.checkpoints import CONTEXT_LENGTH, Kind, random_checkpoint
from tests.harness.servers.server import engine_config

AMPLE = 1 << 40


@pytest.fixture(scope="module")
def config() -> EngineConfig:
    """A model whose cache has no size of its own, for two sequences."""
    return engine_config(random_checkpoint(Kind.LLAMA), kv_blocks=None, max_sequences=2)


def test_a_cache_gets_no_more_than_its_sequences_can_fill(config: EngineConfig) -> None:
    (share,) = plan_memory([("a", config)], AMPLE)
    model = LoadedModel.load(share.engine)
    assert model.blocks.num_blocks == 2 * -(-CONTEXT_LENGTH // model.blocks.block_size)
    assert share.cache == model.blocks.num_blocks * model.decoder.block_bytes


def test_caches_share_equally_what_the_weights_leave(config: EngineConfig) -> None:
    (most,) = plan_memory([("a", config)], AMPLE)
    budget = 2 * most.weights + most.cache  # half of what each could fill, a whole context
    shares = plan_memory([("a", config), ("b", config)], budget)
    assert [share.cache for share in shares] == 2 * [most.cache // 2]
    assert sum(share.total for share in shares) <= budget
    assert shares == plan_memory([("a", config), ("b", config)], budget)


def test_else_each_model_gets_the_budget_beside_its_own_weights(config: EngineConfig) -> None:
    (most,) = plan_memory([("a", config)], AMPLE)
    shares = plan_memory([("a", config), ("b", config)], most.total)
    assert [share.total for share in shares] == 2 * [most.total]


def test_a_cache_of_a_set_size_keeps_it(config: EngineConfig) -> None:
    fixed = engine_config(config.model, kv_blocks=5)
    shares = plan_memory([("fixed", fixed), ("free", config)], AMPLE)
    assert shares[0].engine == fixed
    with pytest.raises(ConfigError, match=f"model 'fixed' takes {shares[0].weights} of weights and {shares[0].cache} "):
        plan_memory([("fixed", fixed)], shares[0].total - 1)
    assert plan_memory([("fixed", fixed)], shares[0].total) == shares[:1]


@pytest.mark.parametrize("weights", ["f32", "bf16", "int8", "int4"])
def test_weights_take_the_memory_that_was_estimated(weights: str) -> None:
    model = LoadedModel.load(engine_config(Path("models/demo/target"), weights=weights, kv_blocks=8))
    told = weight_memory(model.checkpoint, weights)
    assert model.decoder.weight_bytes <= 1.03 * told
    assert told <= model.decoder.weight_bytes * 1.03
