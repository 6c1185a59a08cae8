"""Everything that an answer takes from its model's files and its server's options belongs to the fingerprint."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path

import pytest

import outrider
from services.target.generation.fingerprint import Fingerprint
from tests.harness.models.checkpoints import Kind, copy_of, edit_json, random_checkpoint
from tests.harness.servers.server import target_server

RECOMMENDED = [{"temperature": 0.3}, {"suppress_tokens": [7]}, {"forced_eos_token_id": 1}, {"eos_token_id": [1, 9]}]
PARTS: dict[str, str | int] = {
    field.name: 1 if field.name in ("noise_version", "context_length") else "x" for field in fields(Fingerprint)
}
Edit = Callable[[Path], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_copy(tmp_path, "model")


def a_copy(where: Path, name: str) -> Path:
    copy = copy_of(random_checkpoint(Kind.LLAMA), where, name)
    (copy / "generation_config.json").write_text("{}")
    return copy


def fingerprint(folder: Path, parsers: Mapping[str, str] | None = None) -> str:
    with target_server(folder, parsers=parsers) as target, outrider.Client(target.address) as client:
        return client.model_info().fingerprint


@pytest.mark.parametrize("part", PARTS)
def test_each_part_changes_the_fingerprint(part: str) -> None:
    one = Fingerprint(**PARTS)  # type: ignore[arg-type]
    changed = replace(one, **{part: 2 if PARTS[part] == 1 else "y"})  # type: ignore[arg-type]
    assert changed.digest != one.digest == Fingerprint(**PARTS).digest  # type: ignore[arg-type]


def test_other_recommended_settings_change_the_fingerprint(folder: Path) -> None:
    found = set()
    for changes in ({}, *RECOMMENDED):
        (folder / "generation_config.json").write_text("{}")
        edit_json(folder / "generation_config.json", **changes)
        found.add(fingerprint(folder))
    assert len(found) == 1 + len(RECOMMENDED)


def template(text: str) -> Edit:
    def edit(folder: Path) -> None:
        (folder / "chat_template.jinja").write_text(text)

    return edit


def older_template(text: str) -> Edit:
    def edit(folder: Path) -> None:
        (folder / "chat_template.jinja").unlink()
        edit_settings(chat_template=text)(folder)

    return edit


def edit_settings(**changes: object) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **changes}))

    return edit


def edit_tokenizer(**changes: object) -> Edit:
    return lambda folder: edit_json(folder / "tokenizer.json", **changes)


EDITS: dict[str, Edit] = {
    "another template": template("{{ messages[0].content }}"),
    "a further one": template("{{ messages[0].content }}\n"),
    "one in tokenizer_config.json": older_template("{{ messages[0].content }}!"),
    "no template": lambda folder: (folder / "chat_template.jinja").unlink(),
    "a special token that the template may use": edit_settings(unk_token="<|?|>"),
    "one of the model's own": edit_settings(extra_special_tokens={"image_token": "<img>"}),
    "a normaliser": edit_tokenizer(normalizer={"type": "NFC"}),
    "other words": edit_tokenizer(pre_tokenizer={"type": "Digits", "individual_digits": True}),
}


def test_another_rendering_of_prompts_changes_the_fingerprint(folder: Path, tmp_path: Path) -> None:
    found = {"the model": fingerprint(folder)}
    for name, edit in EDITS.items():
        edit(changed := a_copy(tmp_path, name))
        found[name] = fingerprint(changed)
    assert len({*found.values()}) == len(found), found
    assert fingerprint(a_copy(tmp_path, "the same again")) == found["the model"]


@pytest.mark.parametrize("parsers", [{"tool_parser": "llama3_json"}, {"reasoning_parser": "think"}])
def test_other_parsers_change_the_fingerprint(folder: Path, parsers: Mapping[str, str]) -> None:
    found_by_the_template = {"tool_parser": "hermes", "reasoning_parser": "none"}
    assert fingerprint(folder) == fingerprint(folder, found_by_the_template) != fingerprint(folder, parsers)
