"""A tokenizer may have added tokens for which the model has no row: they are never drawn, and refused in prompts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider import Client, InvalidArgument
from tests.harness.models.checkpoints import VOCAB_SIZE, add_token, copy_of
from tests.harness.servers.server import target_server


@pytest.fixture(scope="module")
def client(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a model whose tokenizer has a token of images."""
    folder = copy_of(model, tmp_path_factory.mktemp("added"))
    add_token(folder, "<image>")
    with target_server(folder) as target, Client(target.address) as client:
        yield client


@pytest.mark.parametrize("grammar", [{}, {"regex": "[<a-z>]{12}"}])
def test_it_is_never_drawn(client: Client, grammar: dict[str, str]) -> None:
    result = client.generate("Who?", max_tokens=12, ignore_eos=True, seed=3, logit_bias={5: 1.0}, **grammar)
    assert max(result.token_ids) < VOCAB_SIZE
    assert "<image>" not in result.text


@pytest.mark.parametrize("prompt", ["Who is <image>?", [3, VOCAB_SIZE]])
def test_a_prompt_that_holds_it_is_refused(client: Client, prompt: str | list[int]) -> None:
    with pytest.raises(InvalidArgument, match=f"token.*{VOCAB_SIZE}"):
        client.generate(prompt, max_tokens=3)
