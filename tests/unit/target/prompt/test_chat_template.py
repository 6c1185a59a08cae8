"""Chat messages become the prompt that their checkpoint was trained on."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.text.tokenizer import Tokenizer
from services.target.prompt import chat_template
from services.target.prompt.chat_template import ChatTemplate, ChatTemplateError
from tests.harness.further import further
from tests.harness.models.checkpoints import (
    CHAT_TEMPLATE,
    Kind,
    byte_level_tokenizer,
    copy_of,
    edit_json,
    random_checkpoint,
)
from tests.harness.models.gguf_vocabularies import write_vocabulary

pytestmark = pytest.mark.process

TOKENIZER = Tokenizer(byte_level_tokenizer().to_str())
BEGIN, END, USER, ASSISTANT = range(4)
MESSAGES = [{"role": "user", "content": " hi "}, {"role": "assistant", "content": "ho"}]


@pytest.fixture(autouse=True)
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a second of the processor may last longer than ten on the clock."""
    monkeypatch.setattr(chat_template, "_LIMITS", replace(chat_template._LIMITS, seconds=3600.0))


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
def test_templates_that_refuse_or_overreach_are_errors(source, problem):
    with pytest.raises(ChatTemplateError, match=problem):
        template_of(source).render(MESSAGES)


def test_a_folder_without_a_template_refuses_messages(tmp_path):
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


TOOLS = [{"type": "function", "function": {"name": "now"}}]
NAMED = [
    {"name": "tool_use", "template": "with {{ tools[0].function.name }}"},
    {"name": "default", "template": "plain"},
]


def assert_has_two(template: ChatTemplate) -> None:
    assert [template.render(MESSAGES), template.render(MESSAGES, tools=[])] == ["plain", "plain"]
    assert template.render(MESSAGES, tools=TOOLS) == "with now"
    assert template.identity != ChatTemplate("plain", template.special_tokens).identity
    assert "tools" in template.source


def test_conversations_with_tools_have_their_own_template(tmp_path):
    template = write_settings(tmp_path, chat_template=NAMED)
    assert_has_two(template)
    assert_has_two(write_settings(tmp_path, chat_template=template.setting))
    folder = tmp_path / "additional_chat_templates"
    folder.mkdir()
    (folder / "tool_use.jinja").write_text(NAMED[0]["template"])
    (folder / "rag.jinja").write_text("{% if %}")
    (tmp_path / "chat_template.jinja").write_text("plain")
    assert_has_two(write_settings(tmp_path))
    (folder / "tool_use.jinja").write_text("{% if %}")
    with pytest.raises(CheckpointError, match="is not a usable chat template"):
        write_settings(tmp_path).try_out()


def test_a_template_file_comes_before_the_settings(tmp_path):
    (tmp_path / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    template = write_settings(tmp_path, chat_template="other", bos_token="<s>", eos_token="</s>")
    assert template.render(MESSAGES[:1]) == "<s><|user|>hi</s><|assistant|>"


# What a template may take

LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
QUADRATIC = "{% for a in messages[0].content %}{% for b in messages[0].content %}{% endfor %}{% endfor %}fine"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        further(LOOPS, "more than 1 s"),
        ("{{ 10 ** (10 ** 8) }}", "more than 1 s"),
        ("{{ 'x' * 10 ** 10 }}", "more than 512 MiB"),
        further("{{ 'x' * 4 * 10 ** 7 }}", "more than (32 MiB|1 s)"),
        further(
            "{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
            "more than (512 MiB|1 s)",
        ),
    ],
)
def test_a_template_that_takes_too_much_is_refused(tmp_path, source, problem):
    (tmp_path / "chat_template.jinja").write_text(source)
    with pytest.raises(CheckpointError, match=problem) as refused:
        ChatTemplate.from_folder(tmp_path).try_out()
    assert str(tmp_path / "chat_template.jinja") in str(refused.value)


def test_slow_messages_are_refused_and_the_next_are_rendered():
    template = template_of(QUADRATIC)
    template.try_out()
    with pytest.raises(ChatTemplateError, match="more than 1 s"):
        template.render([{"role": "user", "content": "x" * 30_000}])
    assert template.render(MESSAGES) == "fine"


def test_a_template_that_does_not_compile_is_refused_by_file(tmp_path):
    for source in ("{% if %}", "{{ x | unknown }}", "{{ (" * 9999):
        template = write_settings(tmp_path, chat_template=source)
        with pytest.raises(CheckpointError, match=r"tokenizer_config\.json: is not a usable chat template"):
            template.try_out()


def test_a_template_that_refuses_the_sample_is_warned_of(caplog):
    template_of("{{ raise_exception('a system message comes first') }}").try_out()
    assert "refuses a sample conversation: 'a system message comes first'" in caplog.text


def test_try_out_accepts_a_folder_without_a_template(tmp_path):
    ChatTemplate.from_folder(tmp_path).try_out()


def test_text_that_is_no_text_is_refused():
    with pytest.raises(ChatTemplateError, match="surrogates not allowed"):
        template_of("{{ '\\ud800' }}").render(MESSAGES)


# Special tokens


def test_older_folders_name_special_tokens_in_their_own_file(tmp_path):
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"bos_token": {"content": "<b>"}, "eos_token": "<e>"}))
    source = "{{ bos_token }}{{ eos_token }}"
    assert write_settings(tmp_path, chat_template=source, bos_token="<s>").render(MESSAGES) == "<b><e>"
    newer = {"chat_template": source, "bos_token": "<s>", "added_tokens_decoder": {}}
    assert write_settings(tmp_path, **newer).render(MESSAGES) == "<s>"


OWN_TOKENS: dict[str, dict[str, object]] = {
    "fields": {"image_token": "<img>", "add_bos_token": True, "sound": "no token"},
    "named": {"extra_special_tokens": {"image_token": "<img>", "sound": "<snd>"}},
    "objects": {"extra_special_tokens": {"image_token": {"__type": "AddedToken", "content": "<img>", "special": True}}},
    "named by version 5": {"model_specific_special_tokens": {"image_token": "<img>", "sound": "<snd>"}},
    "unnamed": {"extra_special_tokens": ["<img>", "<snd>"], "image_token": "<img>"},
}


@pytest.mark.parametrize("settings", OWN_TOKENS.values(), ids=OWN_TOKENS)
def test_a_model_may_have_special_tokens_of_its_own(tmp_path, settings):
    """transformers gives them to the template under their names."""
    from transformers import AutoTokenizer

    source = "{{ image_token }}|{{ sound }}|{{ add_bos_token }}|{{ extra_special_tokens }}|{{ bos_token }}"
    folder = copy_of(random_checkpoint(Kind.LLAMA), tmp_path, chat_template=source)
    edit_json(folder / "tokenizer_config.json", **settings)
    expected = AutoTokenizer.from_pretrained(folder).apply_chat_template(MESSAGES, tokenize=False)
    text = ChatTemplate.from_folder(folder).render(MESSAGES)
    assert text == expected
    assert text.startswith("<img>|")


def test_a_special_token_of_its_own_must_be_a_string(tmp_path):
    with pytest.raises(CheckpointError, match=r"field 'extra_special_tokens': must have strings .* has \{'a': 7\}"):
        write_settings(tmp_path, chat_template="", extra_special_tokens={"a": 7})


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json"])
def test_a_special_token_that_is_none_is_refused(tmp_path, name):
    (tmp_path / name).write_text(json.dumps({"bos_token": 7}))
    with pytest.raises(CheckpointError, match=rf"{name}: field 'bos_token': must be a string, .* is 7"):
        ChatTemplate.from_folder(tmp_path)


def test_a_gguf_file_brings_its_template_and_tokens(tmp_path):
    vocabulary = {"model": "gpt2", "tokens": ["a", "<s>", "</s>"], "types": [1, 3, 3], "merges": []}
    keys = {"keys": {"bos_token_id": 1, "eos_token_id": 2}}
    path = write_vocabulary(tmp_path / "model.gguf", vocabulary | keys | {"chat_template": CHAT_TEMPLATE}, "gpt-2")
    folder = write_settings(tmp_path, chat_template=CHAT_TEMPLATE, bos_token="<s>", eos_token="</s>")
    assert ChatTemplate.from_model(path).render(MESSAGES) == folder.render(MESSAGES)
    assert "<s>" in folder.render(MESSAGES)
    both = vocabulary | {"chat_template": NAMED}
    assert_has_two(ChatTemplate.from_model(write_vocabulary(tmp_path / "both.gguf", both, "gpt-2")))
    bare = write_vocabulary(tmp_path / "bare.gguf", vocabulary | keys, "gpt-2")
    assert not ChatTemplate.from_model(bare).exists
    write_vocabulary(path, vocabulary | keys | {"chat_template": "a" * ((1 << 20) + 1)}, "gpt-2")
    with pytest.raises(
        CheckpointError, match=r"key 'tokenizer\.chat_template': has 1048577 characters; it may have at"
    ):
        ChatTemplate.from_model(path)


def test_parts_for_a_template_that_refuses_tools():
    parted = "{% for part in messages[0].content %}[{{ part.text }}]{% endfor %}"
    source = "{% if tools %}{{ raise_exception('no tools') }}{% endif %}" + parted
    parts = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    assert template_of(source).render([{"role": "user", "content": parts}]) == "[One.][Two.]"
