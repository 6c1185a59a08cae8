"""Chat messages become the prompt that their checkpoint was trained on."""

import json
from pathlib import Path

import pytest

from services.engine.chat_template import ChatTemplate, ChatTemplateError
from services.engine.tokenizer import Tokenizer
from tests.checkpoints import CHAT_TEMPLATE, Kind, byte_level_tokenizer, random_checkpoint

TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())
BEGIN, END, USER, ASSISTANT = range(4)
MESSAGES = [{"role": "user", "content": " hi "}, {"role": "assistant", "content": "ho"}]


def template_of(source: str) -> ChatTemplate:
    return ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"})


def test_chat_renders_as_in_transformers():
    from transformers import AutoTokenizer

    folder = random_checkpoint(Kind.LLAMA)
    expected = AutoTokenizer.from_pretrained(folder).apply_chat_template(
        MESSAGES, tokenize=False, add_generation_prompt=True
    )
    text = ChatTemplate.from_folder(folder).render(MESSAGES)
    assert text == expected == "<|begin|><|user|>hi<|end|><|assistant|>ho<|end|><|assistant|>"


def test_rendered_chat_is_encoded_without_a_second_begin_token():
    text = ChatTemplate.from_folder(random_checkpoint(Kind.LLAMA)).render(MESSAGES[:1])
    hi = TOKENIZER.encode("hi", add_special_tokens=False)
    assert TOKENIZER.encode(text, add_special_tokens=False) == [BEGIN, USER, *hi, END, ASSISTANT]


def test_generation_prompt_may_be_left_out():
    template = ChatTemplate.from_folder(random_checkpoint(Kind.LLAMA))
    assert template.render(MESSAGES[:1], add_generation_prompt=False) == "<|begin|><|user|>hi<|end|>"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ messages | tojson }}", '[{"role": "user", "content": "<é>"}]'),
        ("{{ messages | tojson(indent=1) }}", '[\n {\n  "role": "user",\n  "content": "<é>"\n }\n]'),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% generation %}{{ eos_token }}{% endgeneration %}", "</s>"),
        ("  {% if true %}\nx\n  {% endif %}\n", "x\n"),
        ("{{ tools is none }}{{ documents is none }}{{ custom is defined }}", "TrueTrueFalse"),
        ("{{ strftime_now('%%') }}", "%"),
    ],
)
def test_customary_helpers(source, text):
    assert template_of(source).render([{"role": "user", "content": "<é>"}]) == text


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% if %}", "Expected an expression"),
        ("{{ messages[5].role.name }}", "has no element 5"),
        ("{{ messages + 1 }}", "can only concatenate list"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% for i in range(999999999) %}{% endfor %}", "Range too big"),
    ],
)
def test_what_a_template_refuses_or_may_not_do(source, problem):
    with pytest.raises(ChatTemplateError, match=problem):
        template_of(source).render(MESSAGES)


def test_no_template(tmp_path):
    template = ChatTemplate.from_folder(tmp_path)
    assert not template.exists
    with pytest.raises(ChatTemplateError, match="no chat template"):
        template.render(MESSAGES)


def write_settings(folder: Path, **settings: object) -> ChatTemplate:
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return ChatTemplate.from_folder(folder)


def test_template_in_the_tokenizer_settings(tmp_path):
    template = write_settings(tmp_path, chat_template="{{ bos_token }}!", bos_token={"content": "<s>", "special": True})
    assert template.render(MESSAGES) == "<s>!"


def test_template_among_named_ones(tmp_path):
    named = [{"name": ["tool_use"], "template": "tools"}, "plain", {"name": "default", "template": "plain"}]
    assert write_settings(tmp_path, chat_template=named).render(MESSAGES) == "plain"
    with pytest.raises(ChatTemplateError, match="no chat template"):
        write_settings(tmp_path, chat_template=named[:1]).render(MESSAGES)


def test_a_template_file_comes_before_the_settings(tmp_path):
    (tmp_path / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    template = write_settings(tmp_path, chat_template="other", bos_token="<s>", eos_token="</s>")
    assert template.render(MESSAGES[:1]) == "<s><|user|>hi</s><|assistant|>"
