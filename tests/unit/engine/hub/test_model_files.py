"""Which files of a repository are a model's."""

import pytest

from services.engine.hub.hub_error import HubError
from services.engine.hub.hub_name import HubName
from services.engine.hub.model_files import gguf_parts, is_gguf, text_files

GGUF = [
    "README.md",
    "a-Q4_K_M.gguf",
    "a-q8_0.gguf",
    "BF16/a-BF16-00001-of-00002.gguf",
    "BF16/a-BF16-00002-of-00002.gguf",
]
FOLDER = ["config.json", "tokenizer.json", "model.safetensors"]


def named(file: str | None) -> HubName:
    return HubName("org/name", None, file)


@pytest.mark.parametrize(
    ("file", "parts"),
    [
        ("a-Q4_K_M.gguf", ["a-Q4_K_M.gguf"]),
        ("A-q4_k_m.gguf", ["a-Q4_K_M.gguf"]),
        ("*q8*", ["a-q8_0.gguf"]),
        ("BF16/a-BF16.gguf", GGUF[3:]),
        ("a-BF16.gguf", GGUF[3:]),
        ("BF16/a-BF16-00001-of-00002.gguf", GGUF[3:]),
    ],
)
def test_a_gguf_file_is_found_with_all_of_its_parts(file: str, parts: list[str]):
    assert gguf_parts(named(file), GGUF) == parts


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("*-q*", "org/name:*-q*: its repository has several such files; name one of its GGUF files, which are: "
         "a-Q4_K_M.gguf, a-q8_0.gguf"),
        ("b.gguf", "has no such file; name one of its GGUF files, which are: BF16/a-BF16.gguf, a-Q4_K_M.gguf"),
        (None, "has several such files; name one of its GGUF files, which are: BF16/a-BF16.gguf, a-Q4_K_M.gguf"),
    ],
)  # fmt: skip
def test_no_file_and_several_are_refused_with_a_list(file: str | None, said: str):
    with pytest.raises(HubError) as refused:
        gguf_parts(named(file), GGUF)
    assert said in str(refused.value)


def test_a_missing_part_is_named():
    with pytest.raises(HubError, match=r"has 1 of the parts of BF16/a-BF16-00001-of-00002\.gguf; it must have 2"):
        gguf_parts(named("a-BF16.gguf"), GGUF[:-1])


def test_the_only_gguf_file_needs_no_name():
    assert is_gguf(named(None), GGUF[:2])
    assert gguf_parts(named(None), GGUF[:2]) == ["a-Q4_K_M.gguf"]
    assert not is_gguf(named(None), [*GGUF, "model.safetensors"])


def test_a_mask_in_a_pickle_is_refused():
    files = ["config.json", "model.safetensors", "mask_embedding.pt"]
    with pytest.raises(HubError, match=r"has mask_embedding\.pt: an embedding of the mask token of its own"):
        text_files(named(None), files, is_drafter=True)


def test_only_needed_text_files_are_listed():
    others = [
        "original/config.json",
        "tokenizer.model",
        "chat_template.jinja",
        "additional_chat_templates/tool_use.jinja",
        "additional_chat_templates/rag.jinja",
        "onnx/model.onnx",
        "model.fp16.safetensors",
    ]
    needed = ["config.json", "tokenizer.json", "chat_template.jinja", "additional_chat_templates/tool_use.jinja"]
    assert text_files(named(None), [*FOLDER, *others], is_drafter=False) == needed
    assert text_files(named(None), ["config.json", "model.safetensors"], is_drafter=True) == ["config.json"]


@pytest.mark.parametrize("missing", FOLDER)
def test_a_file_that_a_model_must_have_is_named(missing: str):
    with pytest.raises(HubError, match=f"org/name: its repository has no {missing}"):
        text_files(named(None), [*({*FOLDER} - {missing}), "model-00001-of-00002.safetensors"], is_drafter=False)


def test_pickles_are_refused_with_the_command_that_converts_them():
    with pytest.raises(HubError, match=r"hf download org/name --local-dir FOLDER; .*, a pickle.* weights_only=True"):
        text_files(named(None), ["config.json", "pytorch_model.bin"], is_drafter=True)
