"""Any model folder or GGUF file loads, or is refused with one sentence, soon and in little memory."""

import copy
import json
import math
import os
import random
import resource
import struct
import time
from pathlib import Path

import pytest

from services.engine.config import EngineConfig
from services.engine.decoder.native import isas
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.gguf.gguf_file import GgufFile
from services.engine.loaded_model import LoadedModel
from tests.harness.further import all_with, further
from tests.harness.models.checkpoints import Kind, copy_of, edit_weights, random_checkpoint
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.gguf_files import write_gguf

_NUMBERS = [-1, 0, 1, 7, 2**31 - 2, 2**31, 2**63, 10**30, 1e-300, 1e308, float("nan"), float("inf"), 0.5]
_OTHERS = ["7", "", None, True, False, [], [1, 2], {}, {"a": {"b": []}}, "x" * 10_000, [[[]]] * 1000]
_VALUES = [*_NUMBERS, *_OTHERS]
_MOST_LOADS = 200  # of the folder as it was: so long may one load compute
_MOST_MEMORY = 512 << 20  # bytes that the process grows by, over all loads of a test


class Loader:
    """Loads one folder again and again, and watches what that takes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.num_loaded = 0
        self._config = EngineConfig(model=folder, isa=isas()[-1], threads=1, weights="f32", kv_blocks=2)
        LoadedModel.load(self._config)  # so that all is imported
        began = time.process_time()
        LoadedModel.load(self._config)
        self._seconds = time.process_time() - began
        self._memory = _peak_memory()

    def load(self, *names: str) -> None:
        """It loads, or is refused by an error of one line with one of the names in it."""
        began, problem = time.process_time(), None
        try:
            LoadedModel.load(self._config)
            self.num_loaded += 1
        except CheckpointError as error:
            problem = str(error)
        if problem is not None:
            assert any(name in problem for name in names), problem
            assert "\n" not in problem
            assert len(problem) < 2000
        assert time.process_time() - began < _MOST_LOADS * self._seconds
        assert _peak_memory() - self._memory < _MOST_MEMORY


def _peak_memory() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all that is in a JSON value, itself aside."""
    match value:
        case dict():
            items = [*value.items()]
        case list():
            items = [*enumerate(value)]
        case _:
            items = []
    below = [found for key, each in items for found in _paths(each, (*path, key))]
    return [*((*path, key) for key, _ in items), *below]


def _with(value: object, path: tuple[str | int, ...], changed: object) -> object:
    value = copy.deepcopy(value)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = changed
    return value


@pytest.mark.parametrize(
    "kind",
    all_with(
        [Kind.LLAMA, Kind.QWEN2, Kind.PHI3_LONGROPE, Kind.GEMMA3, Further.QWEN3_5, Further.QWEN3_NEXT],
        Kind.PHI3_LONGROPE,
    ),
)
@pytest.mark.parametrize("seed", [1, further(2), further(3)])
def test_any_value_in_any_field_of_the_configuration(tmp_path, kind, seed):
    folder = copy_of(further_checkpoint(kind) if isinstance(kind, Further) else random_checkpoint(kind), tmp_path)
    loader, path = Loader(folder), folder / "config.json"
    fields = json.loads(path.read_text())
    generator = random.Random(f"{kind} {seed}")
    for where, value in [(where, value) for where in _paths(fields) for value in generator.sample(_VALUES, 2)]:
        path.write_text(json.dumps(_with(fields, where, value)))
        loader.load("config.json", "generation_config.json", "ForCausalLM needs it")
    assert loader.num_loaded > 0


def test_any_value_in_any_setting_of_generation(tmp_path):
    folder = copy_of(random_checkpoint(Kind.LLAMA), tmp_path)
    loader, path = Loader(folder), folder / "generation_config.json"
    names = ["temperature", "top_k", "top_p", "min_p", "repetition_penalty", "do_sample", "eos_token_id", "typical_p"]
    for name in names:
        for value in _VALUES:
            path.write_text(json.dumps({name: value}))
            loader.load(f"generation_config.json: field '{name}'")
    assert loader.num_loaded > 0


@pytest.mark.parametrize("seed", [7, further(8)])
def test_any_value_anywhere_in_the_tokenizer(tmp_path, seed):
    folder = copy_of(random_checkpoint(Kind.LLAMA), tmp_path)
    loader, path = Loader(folder), folder / "tokenizer.json"
    description = json.loads(path.read_text())
    for where, value in _tokenizer_changes(description, seed):
        path.write_text(json.dumps(_with(description, where, value)))
        loader.load("tokenizer.json")
    assert loader.num_loaded > 0


def _tokenizer_changes(description, seed):
    """Few of them in the vocabulary, which is most of the file."""
    generator = random.Random(seed)
    paths = _paths(description)
    few = [path for path in paths if len(path) > 2 and path[0] == "model"]
    others = [path for path in paths if len(path) <= 2 or path[0] != "model"]
    chosen = generator.sample(few, 20) + others
    return [(path, value) for path in chosen for value in generator.sample(_VALUES, 1)]


def test_a_convolution_of_any_size(tmp_path):
    folder = copy_of(further_checkpoint(Further.QWEN3_5), tmp_path)
    loader, path = Loader(folder), folder / "model.safetensors"
    name = "model.layers.0.linear_attn.conv1d.weight"
    edit_weights(folder, lambda tensors: tensors.pop(name))
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header, end = json.loads(content[8 : 8 + size]), len(content) - 8 - size
    for shape in ([2**26, 1, 4], [256, 2**20, 4], [4, 1, 2**26]):
        grown = end + 4 * math.prod(shape)
        text = json.dumps({**header, name: {"dtype": "F32", "shape": shape, "data_offsets": [end, grown]}}).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size :])
        os.truncate(path, 8 + len(text) + grown)  # the rest is a hole, which takes no space
        loader.load(f"'{name}' has shape")
    assert loader.num_loaded == 0


@pytest.mark.parametrize("seed", [3, further(4), further(5)])
def test_any_value_in_the_header_of_the_weights(tmp_path, seed):
    folder = copy_of(random_checkpoint(Kind.LLAMA), tmp_path)
    loader, path = Loader(folder), folder / "model.safetensors"
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    changes = [(where, value) for where in _paths(header) for value in _VALUES]
    for where, value in random.Random(seed).sample(changes, 60):
        text = json.dumps(_with(header, where, value)).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
        loader.load("model.safetensors")


def test_bytes_flipped_anywhere(tmp_path):
    """Only the header of the weights: a changed weight is a weight."""
    folder = copy_of(random_checkpoint(Kind.LLAMA), tmp_path)
    loader, generator = Loader(folder), random.Random(11)
    for name in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors"):
        path = folder / name
        content = path.read_bytes()
        for _ in range(25):
            changed = bytearray(content)
            for _ in range(generator.choice([1, 1, 5])):
                changed[generator.randrange(min(len(content), 4000))] = generator.randrange(256)
            path.write_bytes(changed[: generator.choice([len(changed), generator.randrange(len(changed))])])
            loader.load(name, "config.json", "model.safetensors", "ForCausalLM needs it")
        path.write_bytes(content)


def test_any_value_in_any_hyperparameter_of_a_gguf_file(tmp_path):
    folder, path = random_checkpoint(Kind.LLAMA), tmp_path / "model.gguf"
    loader, generator = Loader(write_gguf(folder, path)), random.Random(2)
    keys = [key.removeprefix("llama.") for key in GgufFile(path).metadata if key.startswith("llama.")]
    values = [
        -1.0,
        0,
        0.5,
        7,
        2**32 - 1,
        1e30,
        float("nan"),
        "7",
        "x" * 5000,
        True,
        [1, 2],
        [4] * 4,
        ["a"],
        [0.5] * 4096,
    ]
    for key, value in generator.sample([(key, value) for key in keys for value in values], 30):
        write_gguf(folder, path, **{key.replace(".", "__"): value})
        loader.load("model.gguf")
    assert loader.num_loaded > 0


def test_bytes_flipped_anywhere_in_the_header_of_a_gguf_file(tmp_path):
    path = write_gguf(random_checkpoint(Kind.LLAMA), tmp_path / "model.gguf")
    loader, generator, content = Loader(path), random.Random(9), path.read_bytes()
    header = content.index(b"blk.0.attn_k.weight")
    for _ in range(40):
        changed = bytearray(content)
        for _ in range(generator.choice([1, 1, 5])):
            changed[generator.randrange(header)] = generator.randrange(256)
        path.write_bytes(changed)
        loader.load("model.gguf")
    assert loader.num_loaded > 0
