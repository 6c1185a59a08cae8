"""An attached drafter, right or wrong, changes no byte of any answer."""

from pathlib import Path

import pytest

from services.engine.allowed_tokens import AllowedTokens
from services.engine.checkpoint.attached.drafter_kind import DrafterKind
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.config import CPU_KV_FORMATS, CPU_WEIGHT_FORMATS
from services.engine.events import PredictionSource
from services.engine.grammar.grammar import Grammar
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.guidance import Guidance
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Generation, Stepper, request
from tests.e2e.matrix.streams import prompt_of, random_prompt
from tests.harness.grammar.grammars import compiler
from tests.harness.models.assistant_folders import write_assistant, write_one_step_assistant
from tests.harness.models.block_folders import block_tensors, zlab_fields
from tests.harness.models.checkpoints import VOCAB_SIZE
from tests.harness.models.drafter_folders import drafter_tensors, original_fields, write_drafter
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.one_step_models import write_one_step_pair
from tests.harness.models.ring_models import write_ring_pair

FEW_BLOCKS = 16


@pytest.fixture(scope="module", params=["one by one", "blocks"])
def random_drafter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = load_checkpoint(folder("llama")).config
    path = tmp_path_factory.mktemp("drafter")
    if request.param == "blocks":
        return write_drafter(path, zlab_fields(target), block_tensors(target))
    return write_drafter(path, original_fields(target), drafter_tensors(target))


@pytest.fixture(scope="module", params=DrafterKind)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target whose next token depends on the last one only, and the drafter that knows it."""
    folder = tmp_path_factory.mktemp("pair")
    match request.param:
        case DrafterKind.EAGLE3:
            return write_one_step_pair(folder)
        case DrafterKind.ASSISTANT:
            return write_one_step_assistant(folder)
        case kind:
            return write_ring_pair(folder, kind)


def requests(temperature: float, **fields: object) -> list[Request]:
    options = {"temperature": temperature, "max_tokens": 100, "num_predictions": 4, **fields}
    return [request(prompt_of("llama", seed), seed=seed, request_id=f"test-{seed}", **options) for seed in range(5)]


def offered(generations: list[Generation]) -> tuple[int, int]:
    """The predictions that were offered and accepted, all of them of the drafter."""
    stats = [generation.end.speculation.by_source for generation in generations]
    assert all({*each} <= {PredictionSource.ATTACHED} for each in stats)
    sources = [each[PredictionSource.ATTACHED] for each in stats if each]
    return sum(each.offered for each in sources), sum(each.accepted for each in sources)


async def assert_same_bytes(
    model: str | Path, drafter: Path, wanted: list[Request], **engine: object
) -> tuple[Stepper, tuple[int, int]]:
    weights = {name: engine[name] for name in ("weights", "kv") if name in engine}
    alone = [await Stepper(model, **weights).complete(each) for each in wanted]
    stepper = Stepper(model, drafter=drafter, **engine)
    generations = [stepper.submit(each) for each in wanted]
    stepper.run()
    assert [await generation.transcript() for generation in generations] == alone
    return stepper, offered(generations)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_a_drafter_that_knows_nothing_changes_no_byte(random_drafter, temperature):
    _, (num_offered, num_accepted) = await assert_same_bytes("llama", random_drafter, requests(temperature))
    assert num_offered > 1000
    assert num_accepted < num_offered / 4


@pytest.mark.parametrize("kind", [Further.GEMMA4_SMALL, Further.GEMMA4_UNIFIED])
@pytest.mark.parametrize("kv", CPU_KV_FORMATS)
async def test_an_assistant_that_knows_nothing_changes_no_byte(tmp_path, kind, kv):
    target, drafter = further_checkpoint(kind), write_assistant(tmp_path / "drafter", kind)
    _, (num_offered, num_accepted) = await assert_same_bytes(target, drafter, requests(1.0), kv=kv)
    assert num_offered > 1000
    assert num_accepted < num_offered / 4


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("weights", CPU_WEIGHT_FORMATS)
async def test_a_drafter_that_knows_everything_is_always_right(pair, temperature, weights):
    target, drafter = pair
    wanted = requests(temperature)
    _, (num_offered, num_accepted) = await assert_same_bytes(target, drafter, wanted, weights=weights)
    assert num_offered > 350
    is_one_by_one = "LlamaForCausalLMEagle3" in (drafter / "config.json").read_text()
    least = 0.5 if is_one_by_one and weights == "int4" else 0.99  # a group of int4 has no zero beside a one
    assert num_accepted > least * num_offered


async def test_prompts_in_parts_and_preempted_sequences_are_read_anew(pair):
    target, drafter = pair
    stepper, (num_offered, num_accepted) = await assert_same_bytes(
        target, drafter, requests(1.0), num_blocks=FEW_BLOCKS, prefill_chunk=16
    )
    assert stepper.scheduler.num_preemptions > 0
    assert num_offered > 300
    assert num_accepted > 0.99 * num_offered


async def test_answers_after_a_prefix_that_was_cached(pair):
    target, drafter = pair
    first = request(random_prompt("long", 100), seed=1, max_tokens=100, num_predictions=4, prompt_logprobs=False)
    stepper = Stepper(target, drafter=drafter)
    cold = stepper.submit(first)
    stepper.run()
    generation = stepper.submit(first)
    stepper.run()
    assert await generation.transcript() == await cold.transcript()
    assert generation.end.cached_tokens > 0
    assert generation.end.speculation.passes == cold.end.speculation.passes, "predicted for from the start"
    num_offered, num_accepted = offered([generation])
    assert num_offered > 60
    assert num_accepted > 0.99 * num_offered


async def test_runs_go_on_into_the_next_block(pair):
    target, drafter = pair
    stepper = Stepper(target, drafter=drafter)
    generation = stepper.submit(request(prompt_of("llama", 1), seed=1, max_tokens=101, num_predictions=4))
    stepper.run()
    await generation.transcript()
    assert generation.end.speculation.passes == 21, "one for the prompt, and 20 with five tokens each"


@pytest.fixture(scope="module", params=[write_one_step_pair, write_one_step_assistant])
def chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target, and a drafter that knows it and predicts one token after another."""
    return request.param(tmp_path_factory.mktemp("chain"))


def following(model: Path, regex: str) -> Grammar:
    return compiler(Tokenizer.from_model(model), VOCAB_SIZE).compile(GrammarSource(GrammarKind.REGEX, (regex,)))


def masked_requests(model: Path, temperature: float) -> list[Request]:
    """Requests whose tokens are masked, by a grammar, by a set of tokens, or by both; and one without a mask."""
    words, letters = following(model, r"([a-z]{2,5}[,;] ?)*"), following(model, "[a-z]{30}")
    allowed = AllowedTokens.of(range(40, 400), vocab_size=VOCAB_SIZE)
    fields: list[dict[str, object]] = [
        {"grammar": words},
        {"allowed_tokens": allowed},
        {"grammar": words, "allowed_tokens": allowed, "num_predictions": 2},
        {},
        {"grammar": words, "num_predictions": 7},
        {"grammar": letters},
    ]
    options = {"temperature": temperature, "max_tokens": 100, "num_predictions": 4}
    return [
        request(prompt_of("llama", seed), seed=seed, request_id=f"test-{seed}", **{**options, **each})
        for seed, each in enumerate(fields)
    ]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("company", ["together", "one by one"])
async def test_masked_tokens_are_predicted_in_runs(chain, temperature, company):
    target, drafter = chain
    wanted = masked_requests(target, temperature)
    groups = [wanted] if company == "together" else [[each] for each in wanted]
    for group in groups:
        _, (num_offered, num_accepted) = await assert_same_bytes(target, drafter, group)
        assert num_accepted > 0.99 * num_offered
        assert num_offered > 0


async def test_a_run_under_a_grammar_is_as_long_as_one_without(chain):
    target, drafter = chain
    stepper = Stepper(target, drafter=drafter)
    generation = stepper.submit(
        request(
            prompt_of("llama", 1),
            seed=1,
            max_tokens=101,
            num_predictions=4,
            grammar=following(target, r"([a-z]{2,5}[,;] ?)*"),
        )
    )
    stepper.run()
    await generation.transcript()
    assert generation.end.speculation.passes == 21, "one for the prompt, and 20 with five tokens each"


async def test_guided_requests_get_no_predictions_of_it(pair):
    target, drafter = pair
    guided = [
        request(
            prompt_of("llama", seed),
            seed=seed,
            max_tokens=30,
            num_predictions=4,
            guidance=Guidance(scale=1.5, negative_prompt=(3, 4)),
        )
        for seed in range(2)
    ]
    _, counts = await assert_same_bytes(target, drafter, guided)
    assert counts == (0, 0)
