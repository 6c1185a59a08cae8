"""Tokens are found by what their bytes hold."""

import pytest

from services.engine.text.token_search import TokenSearch
from services.engine.text.tokenizer import Tokenizer
from tests.harness.models.checkpoints import byte_level_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(byte_level_tokenizer().to_str())


@pytest.mark.parametrize("strings", [["e"], ["\n", ":", '"', "*"], ["de", "re"], ["ä"], ["no token is like this"], []])
def test_every_token_that_holds_a_string_is_found(tokenizer: Tokenizer, strings: list[str]) -> None:
    found = [
        token_id
        for token_id in range(tokenizer.vocab_size)
        if any(string.encode() in tokenizer.token_bytes(token_id) for string in strings)
    ]
    assert TokenSearch(tokenizer).ids_with(strings) == tuple(found)
