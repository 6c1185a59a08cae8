"""A model's syntax is found in the text of its chat template, or by its name."""

import pytest

from services.engine.text.tokenizer import Tokenizer
from services.target.message.syntax import REASONING_SYNTAXES, TOOL_SYNTAXES, MessageSyntax
from tests.harness.models.checkpoints import byte_level_tokenizer
from tests.unit.target.prompt.template_conversations import template_of

TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())


def found(template: str, tool_parser: str = "auto", reasoning_parser: str = "auto") -> MessageSyntax:
    return MessageSyntax.find(template, TOKENIZER, tool_parser=tool_parser, reasoning_parser=reasoning_parser)


@pytest.mark.parametrize(
    ("family", "tools", "reasoning"),
    [
        ("qwen2.5", "hermes", None),
        ("qwen3", "hermes", "think"),
        ("qwq", "hermes", "think"),
        ("hermes", "hermes", None),
        ("qwen3-coder", "qwen3_coder", None),
        ("glm-4.6", "glm", "think"),
        ("gpt-oss", "harmony", "harmony"),
        ("gemma-4", "gemma4", "gemma4"),
        ("seed-oss", "seed_oss", "seed"),
        ("qwen3.5", "qwen3_coder", "think"),
        ("llama-3", "llama3_json", None),
        ("mistral-nemo", "mistral", None),
        ("mistral-small-3.2", "mistral_args", None),
        ("ministral-3-reasoning", "mistral_args", "mistral"),
        ("deepseek-v3", "deepseek_v3", "think"),
        ("deepseek-r1-distill", "deepseek_v3", "think"),
        ("deepseek-v3.1", "deepseek_v31", "think"),
        ("phi-3.5", None, None),
        ("zephyr", None, None),
    ],
)
def test_a_chat_template_shows_its_syntax(family, tools, reasoning):
    syntax = found(template_of(family))
    assert (syntax.tools, syntax.reasoning) == (TOOL_SYNTAXES.get(tools), REASONING_SYNTAXES.get(reasoning))


def test_named_parsers_come_before_the_templates_syntax():
    syntax = found(template_of("qwen3"), tool_parser="mistral", reasoning_parser="none")
    assert (syntax.tools, syntax.reasoning) == (TOOL_SYNTAXES["mistral"], None)


def test_marks_that_are_single_tokens_are_known_by_their_ids():
    library = byte_level_tokenizer().from_str(byte_level_tokenizer().to_str())
    library.add_special_tokens(["[TOOL_CALLS]"])
    library.add_tokens(["<tool_call>"])
    tokenizer = Tokenizer(library.to_str())
    ids = {mark: tokenizer.encode(mark, add_special_tokens=False)[0] for mark in ("[TOOL_CALLS]", "<tool_call>")}
    hermes = MessageSyntax.find("", tokenizer, tool_parser="hermes", reasoning_parser="think")
    assert (hermes.mark_ids, hermes.special_ids) == ({"<tool_call>": ids["<tool_call>"]}, frozenset())
    mistral = MessageSyntax.find("", tokenizer, tool_parser="mistral", reasoning_parser="none")
    assert mistral.special_ids == {ids["[TOOL_CALLS]"]}
