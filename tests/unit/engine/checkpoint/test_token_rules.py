"""The tokens that a checkpoint forbids, and those that it forces."""

import json
from typing import Any

import pytest

from services.engine.checkpoint.token_rules import TokenRules, read_forced_ids, read_token_rules
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import JsonFields
from services.engine.forced_tokens import ForcedIds

VOCAB_SIZE, END = 100, 2


def rules_of(**fields: Any) -> TokenRules:
    values = json.loads(json.dumps(fields))
    return read_token_rules(JsonFields(values, "generation_config.json"), vocab_size=VOCAB_SIZE, eos_token_ids=(END,))


def test_lists_have_the_names_of_our_parameters() -> None:
    rules = rules_of(suppress_tokens=[7, 5], begin_suppress_tokens=[0, 99], bad_words_ids=[[3], [4, 4, 1]])
    assert rules == {"suppressed_ids": (7, 5), "begin_suppressed_ids": (0, 99), "bad_words": ((3,), (4, 4, 1))}


def test_empty_or_null_rules_are_left_out() -> None:
    assert rules_of(suppress_tokens=[], begin_suppress_tokens=None, bad_words_ids=[]) == {}


def test_an_end_token_is_no_bad_word_but_may_be_part_of_one() -> None:
    assert rules_of(bad_words_ids=[[END], [END, END], [5, END]]) == {"bad_words": ((END, END), (5, END))}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"suppress_tokens": 7}, "at most 1024 ids from 0 to 99, is 7"),
        ({"suppress_tokens": [True]}, r"is \[True\]"),
        ({"suppress_tokens": [-1]}, r"is \[-1\]"),
        ({"begin_suppress_tokens": [100]}, r"is \[100\]"),
        ({"begin_suppress_tokens": [1] * 1025}, "at most 1024 ids"),
        ({"bad_words_ids": {"a": 1}}, "at most 128 lists, is {'a': 1}"),
        ({"bad_words_ids": [[1]] * 129}, "at most 128 lists"),
        ({"bad_words_ids": [[1], []]}, r"1 to 32 ids from 0 to 99, has \[\]"),
        ({"bad_words_ids": [[1] * 33]}, "1 to 32 ids"),
        ({"bad_words_ids": [[1, 100]]}, r"has \[1, 100\]"),
        ({"bad_words_ids": ["ab"]}, "has 'ab'"),
    ],
)
def test_invalid_rules_are_refused_by_name(fields: dict[str, Any], named: str) -> None:
    (field,) = fields
    with pytest.raises(CheckpointError, match=rf"generation_config\.json: field '{field}': .*{named}"):
        rules_of(**fields)


def forced_of(**fields: Any) -> ForcedIds:
    return read_forced_ids(JsonFields(fields, "generation_config.json"), vocab_size=VOCAB_SIZE)


def test_forced_tokens_may_be_one_or_a_list() -> None:
    assert forced_of(forced_bos_token_id=7, forced_eos_token_id=[2, 99]) == ForcedIds(second=(7,), last=(2, 99))
    assert forced_of(forced_bos_token_id=None, forced_eos_token_id=[]) == forced_of() == ForcedIds()


@pytest.mark.parametrize("field", ["forced_bos_token_id", "forced_eos_token_id"])
@pytest.mark.parametrize("value", [100, -1, True, "7", [7, 100], [[7]], 0.5])
def test_invalid_forced_tokens_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=rf"field '{field}': must hold an id, or at most 1024, from 0 to 99, is"):
        forced_of(**{field: value})
