"""The values of `--model`, and which of them are names on the hub."""

from pathlib import Path

import pytest

from services.engine.hub.hub_name import HubName, read_source


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("org/name", HubName("org/name")),
        ("org/name@v1.0", HubName("org/name", "v1.0")),
        ("org/name@refs/pr/1", HubName("org/name", "refs/pr/1")),
        ("org/name:a b-Q4_K_M.gguf", HubName("org/name", None, "a b-Q4_K_M.gguf")),
        ("o_r.g-1/Name.2@main:q4/a.gguf", HubName("o_r.g-1/Name.2", "main", "q4/a.gguf")),
        ("org/name.gguf:a.gguf", HubName("org/name.gguf", None, "a.gguf")),
    ],
)
def test_a_name_on_the_hub_is_read_and_written_the_same(text: str, name: HubName):
    assert read_source(text) == name
    assert str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        "name",
        "a/b/c",
        "/org/name",
        "./org/name",
        "../name",
        "~/name",
        "org/",
        "org/name.gguf",
        "org/name@",
        "org/name:",
        "",
    ],
)
def test_text_that_is_no_hub_name_is_a_path(text: str):
    assert read_source(text) == Path(text)


def test_a_folder_that_is_here_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert read_source("org/name") == HubName("org/name")
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert read_source("org/name") == Path("org/name")
