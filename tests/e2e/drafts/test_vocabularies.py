"""A draft with another vocabulary than the target's: it guesses the same draws, and changes no byte."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from outrider import Client, Result, VocabularyMatch
from services.draft.vocabulary.vocabularies import Way
from services.engine.sampling_params import SamplingParams
from tests.e2e.acceptance.offline_draft import OfflineDraft, texts
from tests.e2e.harness.draft_rig import GREEDY, PROMPT, SAMPLED, Options, assert_counts, assert_same
from tests.e2e.harness.models import (
    DEMO_DRAFT,
    DEMO_TARGET,
    foreign_draft_folder,
    padded_draft_folder,
    reworded_draft_folder,
)
from tests.harness.further import further
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import RunningDraft

SAMPLING = {
    "greedy": SamplingParams(seed=1, temperature=0.0),
    "sampled": SamplingParams(seed=2, temperature=1.0),
    "truncated": SamplingParams(seed=3, temperature=1.2, top_k=50, top_p=0.95, repetition_penalty=1.2),
}


@pytest.fixture(scope="module")
def plain() -> OfflineDraft:
    return OfflineDraft(DEMO_DRAFT)


@pytest.mark.parametrize("params", SAMPLING.values(), ids=SAMPLING.keys())
@pytest.mark.parametrize("num_padded", [0, 64])
def test_a_reordered_vocabulary_gives_the_same_predictions(
    plain: OfflineDraft, params: SamplingParams, num_padded: int
):
    """The model is the same but for the order of its words: so are its logits, and the noise goes with the words."""
    reworded = OfflineDraft(reworded_draft_folder(num_dropped=0, num_padded=num_padded))
    way = reworded.map_to(plain.model.tokenizer, plain.size)
    assert way is not None
    assert way.num_shared == plain.size
    pieces = texts(plain.model.tokenizer)
    expected = [plain.predict(piece, params, None) for piece in pieces]
    assert [reworded.predict(piece, params, way) for piece in pieces] == expected
    assert len({*map(tuple, expected)}) > 10


@pytest.mark.parametrize("params", SAMPLING.values(), ids=SAMPLING.keys())
def test_padding_is_never_predicted_and_changes_nothing(plain: OfflineDraft, params: SamplingParams):
    padded = OfflineDraft(padded_draft_folder(64))
    way = padded.map_to(plain.model.tokenizer, plain.size)
    pieces = texts(plain.model.tokenizer)
    assert [padded.predict(piece, params, way) for piece in pieces] == [
        plain.predict(piece, params, None) for piece in pieces
    ]


@pytest.mark.parametrize("params", SAMPLING.values(), ids=SAMPLING.keys())
def test_a_draft_that_lacks_some_tokens_still_guesses_most_draws(plain: OfflineDraft, params: SamplingParams):
    """It reads tokens that it lacks in pieces, and does not predict them."""
    reworded = OfflineDraft(reworded_draft_folder(num_dropped=600))
    way = reworded.map_to(plain.model.tokenizer, plain.size)
    assert way is not None
    assert way.num_shared == plain.size - 600
    pieces = texts(plain.model.tokenizer)
    assert any(len(way.own_tokens(token_id)) > 1 for piece in pieces for token_id in piece)
    agreed = [
        first[0] == second[0]
        for piece in pieces
        for first, second in [(plain.predict(piece, params, None), reworded.predict(piece, params, way))]
    ]
    assert np.mean(agreed) > 0.6


@contextmanager
def drafted_target(folder: Path, way: Way = Way.AUTO) -> Iterator[RunningTarget]:
    """The demo target with a draft that knows its vocabulary."""
    draft = RunningDraft(folder, target_tokenizers=[DEMO_TARGET], translate=way)
    with target_server(DEMO_TARGET, kv_blocks=64, drafts=[draft.address], lookup=False) as running:
        running.wait_for_draft()
        yield running
        running.assert_all_free()
    draft.assert_all_free()
    draft.close()


DRAFTS = {
    "dropped": (reworded_draft_folder, VocabularyMatch.TRANSLATED),
    "padded": (partial(padded_draft_folder, 64), VocabularyMatch.SAME),
    "foreign": (foreign_draft_folder, VocabularyMatch.BYTES),
}


@pytest.fixture(scope="module", params=DRAFTS)
def drafted(request: pytest.FixtureRequest) -> Iterator[tuple[RunningTarget, VocabularyMatch]]:
    """The demo target with a draft of another vocabulary, or of a padded one."""
    folder, match = DRAFTS[request.param]
    with drafted_target(folder()) as running:
        yield running, match


@pytest.fixture(scope="module")
def alone() -> dict[str, Result]:
    """Answers without a draft, which depend on none: each is generated once."""
    return {}


def generate_both(target: RunningTarget, options: Options, alone: dict[str, Result]) -> tuple[Result, Result]:
    """An answer without predictions and one with them, which are the same."""
    with Client(target.address, max_retries=0) as client:
        key = repr(sorted(options.items()))
        if key not in alone:
            alone[key] = client.generate(PROMPT, **options, speculation="never")
        result = client.generate(PROMPT, **options, speculation="always", num_predictions=4)
    assert_same(result, alone[key])
    return alone[key], result


@pytest.mark.parametrize("options", [further(GREEDY, id="greedy"), pytest.param(SAMPLED, id="sampled")])
def test_another_vocabulary_changes_no_byte_and_is_reported(
    drafted: tuple[RunningTarget, VocabularyMatch], options: Options, alone: dict[str, Result]
):
    target, match = drafted
    undrafted, result = generate_both(target, {**options, "max_tokens": 64}, alone)
    assert_counts(result)
    assert result.speculation.draft_vocabulary is match
    assert undrafted.speculation.draft_vocabulary is None


@pytest.mark.exhaustive
def test_with_few_shared_tokens_the_bytes_way_predicts_more(caplog: pytest.LogCaptureFixture):
    """The same draft for the same target; only the translation between them differs."""
    caplog.set_level(logging.INFO)
    lengths: dict[Way, float] = {}
    alone: dict[int, Result] = {}  # which does not depend on the draft either
    for way, match, told in [
        (Way.INTERSECTION, VocabularyMatch.TRANSLATED, r"predicts \d+ of 8192 tokens,"),
        (Way.BYTES, VocabularyMatch.BYTES, r"predicts through bytes, having \d+ of 8192 tokens,"),
    ]:
        figures = []
        with drafted_target(foreign_draft_folder(), way) as target, Client(target.address, max_retries=0) as client:
            for seed in range(3):
                options = {**SAMPLED, "seed": seed, "max_tokens": 150}
                if seed not in alone:
                    alone[seed] = client.generate(PROMPT, **options, speculation="never")
                result = client.generate(PROMPT, **options, speculation="always", num_predictions=4)
                assert_same(result, alone[seed])
                assert result.speculation.draft_vocabulary is match
                figures.append(result.speculation)
        assert re.search(told, caplog.text)
        lengths[way] = sum(each.accepted for each in figures) / sum(each.num_spec_steps for each in figures)
    assert lengths[Way.BYTES] > 1.25 * lengths[Way.INTERSECTION] > 0


def test_banned_strings_are_taken_back_beside_it(
    drafted: tuple[RunningTarget, VocabularyMatch], alone: dict[str, Result]
):
    target, _ = drafted
    options = {**SAMPLED, "max_tokens": 100, "banned_strings": ["SELF", "return "]}
    undrafted, result = generate_both(target, options, alone)
    assert result.suppressed == undrafted.suppressed
    assert result.suppressed
    assert "self" not in result.text.lower()
    assert result.speculation.accepted > 0
