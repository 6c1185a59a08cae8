"""Small files are read and tried while the weights load, and an error in them ends the load at once."""

import json
import time
from pathlib import Path

import pytest

from services.engine.config import ConfigError
from services.engine.files.checkpoint_error import CheckpointError
from services.target.engines.model_setup import ModelSetup
from tests.harness.models.checkpoints import Kind, copy_of, edit_json, random_checkpoint
from tests.harness.servers.server import RunningTarget, target_server
from tests.unit.engine.test_config import make_config

pytestmark = pytest.mark.process

LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


@pytest.fixture
def folder(tmp_path) -> Path:
    return copy_of(random_checkpoint(Kind.LLAMA), tmp_path)


@pytest.fixture
def target(folder, monkeypatch):
    """A target whose weights never finish loading."""

    def fill(checkpoint, decoder, device, weights, cache, progress):
        while True:
            progress.advance(0.0)
            time.sleep(0.001)

    monkeypatch.setattr("services.engine.loaded_model.fill_decoder", fill)
    with target_server(folder, loads=False) as running:
        yield running


def refusal(target: RunningTarget) -> str:
    with pytest.raises(CheckpointError) as refused:
        target.call(target.server.open())
    return str(refused.value)


def test_a_whole_folder_comes_to_its_weights(target, monkeypatch):
    def fill(*arguments):
        raise AssertionError("the weights are read")

    monkeypatch.setattr("services.engine.loaded_model.fill_decoder", fill)
    with pytest.raises(AssertionError, match="the weights are read"):
        target.call(target.server.open())


def test_the_tokenizer_is_read(folder, target):
    (folder / "tokenizer.json").write_text("{}")
    assert "tokenizer.json: is not a usable tokenizer" in refusal(target)


def test_the_tokenizer_is_tried(folder, target):
    edit_json(folder / "tokenizer.json", model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "missing"})
    assert "tokenizer.json: " in refusal(target)


def test_the_template_is_tried(folder, target):
    (folder / "chat_template.jinja").write_text(LOOPS)
    assert "chat_template.jinja: the chat template cannot render three messages: it " in refusal(target)  # takes long


def test_the_special_tokens_are_read(folder, target):
    (folder / "special_tokens_map.json").write_text("[")
    assert "special_tokens_map.json: cannot be read as JSON" in refusal(target)


def test_a_tokenizer_with_more_ids_than_the_model_is_refused(folder, target):
    path = folder / "tokenizer.json"
    description = json.loads(path.read_text())
    description["model"]["vocab"]["<extra>"] = 512
    path.write_text(json.dumps(description))
    said = refusal(target)
    assert f"{path}: token '<extra>' has id 512; by vocab_size in config.json it must be from 0 to 511" in said


def test_options_of_drafts_have_ranges(folder):
    engine = make_config(model=folder)
    for value in (-1, 65, 10**9):
        with pytest.raises(ConfigError, match=f"^run_ahead is {value}; it must be from 0 to 64$"):
            ModelSetup(engine=engine, run_ahead=value)
        with pytest.raises(ConfigError, match=f"^alternates is {value}; it must be from 0 to 64$"):
            ModelSetup(engine=engine, num_alternates=value)
