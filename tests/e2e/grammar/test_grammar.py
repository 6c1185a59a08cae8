"""A text that follows a grammar has the same bytes with any predictions, company and cuts."""

import math
import random
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any

import pytest

from services.engine.grammar.matcher import GrammarMatcher
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.predictor import Predictor
from tests.e2e.harness.stepper import Generation, Stepper, request
from tests.e2e.matrix.cells import SCRIPTED
from tests.e2e.matrix.predictions import ScriptedPredictor
from tests.e2e.matrix.streams import prompt_of
from tests.e2e.matrix.transcript import Transcript
from tests.harness.further import all_with
from tests.harness.grammar.grammars import SOURCES, allowed, compiler, follows
from tests.harness.models.checkpoints import VOCAB_SIZE
from tests.harness.servers.silent_predictor import SilentPredictor

MODELS = ("demo", "llama", "gemma2")
NAMES = sorted(SOURCES.keys() - {"any json"})  # which ends when it likes
SEEDS = range(4)
ENDS = {"demo": 0, "llama": 1, "gemma2": 1}


class RandomPredictor(SilentPredictor):
    """Predicts random tokens, some of them allowed by the grammar."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        return random.Random(len(sequence.tokens)).choices(range(self._vocab_size), k=limit)


class EagerPredictor(SilentPredictor):
    """Predicts what the grammar allows, wherever that leads, as one rule chooses among the ids; none ends it."""

    def __init__(self, choose: Callable[[list[int]], int]) -> None:
        self._choose = choose
        self._starts: dict[str, GrammarMatcher] = {}

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        request = sequence.request
        if request.grammar is None:
            return []
        if request.request_id not in self._starts:
            self._starts[request.request_id] = request.grammar.matcher(stop_ids=())
        state = self._starts[request.request_id].fork()
        state.advance(sequence.tokens[sequence.num_prompt :])
        predictions: list[int] = []
        for _ in range(limit):
            if not (token_ids := allowed(state.mask(), VOCAB_SIZE)):
                break
            predictions.append(self._choose(token_ids))
            state.advance(predictions[-1:])
        return predictions


class HostilePredictor(SilentPredictor):
    """Predicts a comma and a space, a bracket and a space, and the like, as often where they are wrong as right."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._pairs = [tokenizer.encode(pair, add_special_tokens=False) for pair in (", ", "] ", "} ", ": ", '" ', " ")]

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        return self._pairs[random.Random(len(sequence.tokens)).randrange(len(self._pairs))][:limit]


def following(stepper: Stepper, name: str, seed: int, **fields: Any) -> Request:
    """A request whose text follows a grammar."""
    grammar = compiler(stepper.tokenizer, stepper.vocab_size).compile(SOURCES[name])
    options = {"temperature": 1.2, "max_tokens": 80, "token_ids": frozenset([ENDS[stepper.model]]), **fields}
    return request(prompt_of(stepper.model, seed), seed=seed, grammar=grammar, request_id=f"test-{seed}", **options)


def predicting(model: str, name: str, wholes: list[Transcript], **engine: Any) -> Stepper:
    scripts = {f"test-{seed}": (name, whole.token_ids) for seed, whole in zip(SEEDS, wholes, strict=True)}
    plain = Stepper(model)
    predictors: dict[str, Predictor] = {
        "random": RandomPredictor(plain.vocab_size),
        "lowest": EagerPredictor(min),
        "highest": EagerPredictor(max),
        "hostile": HostilePredictor(plain.tokenizer),
        **dict.fromkeys(SCRIPTED, ScriptedPredictor(scripts.get, vocab_size=plain.vocab_size)),
    }
    return Stepper(model, predictors=[predictors[name]], **engine)


async def alone(model: str, name: str) -> list[Transcript]:
    stepper = Stepper(model)
    return [await stepper.complete(following(stepper, name, seed)) for seed in SEEDS]


def figures(generations: list[Generation]) -> tuple[int, int]:
    """Predictions that were accepted and rejected."""
    stats = [generation.end.speculation for generation in generations]
    accepted = sum(sum(each.accepted) for each in stats)
    return accepted, sum(sum(each.offered) for each in stats) - accepted


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", all_with(MODELS, "llama"))
async def test_texts_follow_the_grammar(model: str, name: str):
    wholes = await alone(model, name)
    for whole in wholes:
        assert whole.reason == "max_tokens" or follows(name, whole.text), whole.text
    assert any(whole.reason == "stop_token" for whole in wholes)
    assert len({whole.text for whole in wholes}) > 1


@pytest.mark.parametrize("kind", all_with([*SCRIPTED, "random", "lowest", "highest", "hostile"], "mixed", "hostile"))
@pytest.mark.parametrize(("model", "names"), [("llama", NAMES[::2]), ("gemma2", NAMES[1::2])])
async def test_predictions_company_and_preemption_change_nothing(model: str, names: list[str], kind: str):
    accepted = rejected = preemptions = 0
    for name in names:
        wholes = await alone(model, name)
        stepper = predicting(model, kind, wholes, num_blocks=7, prefill_chunk=16)
        wanted = [following(stepper, name, seed, num_predictions=5) for seed in SEEDS]
        company = stepper.submit(request(prompt_of(model, 7), seed=1, temperature=1.0, max_tokens=120))
        generations = [stepper.submit(one) for one in wanted]
        stepper.run()
        assert stepper.most_sequences > 1
        assert [await generation.transcript() for generation in generations] == wholes
        await company.read()
        right, wrong = figures(generations)
        accepted, rejected = accepted + right, rejected + wrong
        preemptions += stepper.scheduler.num_preemptions
    assert (accepted > 0) == (kind != "wrong") or kind == "random"
    assert (rejected > 0) == (kind != "right")
    assert preemptions > 0


@pytest.mark.parametrize("name", NAMES)
async def test_a_text_cut_anywhere_continues_with_the_same_bytes(name: str):
    plain = Stepper("llama")
    wanted = following(plain, name, seed=1, num_predictions=3, max_tokens=48)
    whole = await plain.complete(wanted)
    stepper = predicting("llama", "mixed", [whole] * len(SEEDS))
    for cut in range(len(whole.token_ids) + 1):
        rest = await stepper.complete(replace(wanted, received=whole.token_ids[:cut]))
        assert rest.token_ids == whole.token_ids[cut:]
        assert rest.records == whole.records[cut:]
        assert whole.text.endswith(rest.text)
        assert rest.reason == whole.reason


# After the other token a mask needs too many new states; the banned string needs some of these too.
COSTLY = [
    ("(.*)(e.{9}|i.{9}|t.{9}|h.{12}|r.{13}|o.{9})", " idlelib", "Delete"),
    (".*(r.{15}|t.{9}|n.{15}|e.{9}|s.{12})", " t", " namespace"),
]


@pytest.mark.parametrize(("regex", "banned", "other"), COSTLY)
async def test_a_limit_strikes_as_if_nothing_had_been_taken_back(regex: str, banned: str, other: str):
    stepper = Stepper("demo")
    ids = {piece: stepper.tokenizer.encode(piece, add_special_tokens=False)[0] for piece in ("Z", banned, other, "x")}
    grammar = compiler(stepper.tokenizer, stepper.vocab_size).compile(GrammarSource(GrammarKind.REGEX, (regex,)))
    wanted = request(
        [ids["x"]],
        grammar=grammar,
        temperature=0.0,
        max_tokens=4,
        banned_strings=(banned + "Z",),
        logit_bias={ids["Z"]: 70.0, ids[banned]: 60.0, ids[other]: 50.0},
        begin_suppressed_ids=(ids["Z"],),
    )
    whole = await stepper.complete(wanted)
    assert (whole.text, whole.reason) == (other, "grammar_incomplete")
    rest = await stepper.complete(replace(wanted, received=whole.token_ids))
    assert (rest.token_ids, rest.reason) == ((), "grammar_incomplete")
