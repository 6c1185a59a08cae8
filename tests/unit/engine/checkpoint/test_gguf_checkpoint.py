"""A GGUF file loads as the folder that it was made of."""

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize

from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.checkpoint.safetensors_file import to_float32
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.text.tokenizer import Tokenizer
from tests.harness.models.checkpoints import (
    SPECIAL_TOKENS,
    VOCAB_SIZE,
    Kind,
    random_checkpoint,
    write_random_checkpoint,
)
from tests.harness.models.gguf_files import BF16, F16, F32, FURTHER, write_gguf
from tests.harness.models.gguf_vocabularies import finish
from tests.harness.models.representable import representable_checkpoint

QUANTISED = [
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ4_NL", "IQ4_XS", "IQ3_S", "IQ2_XXS", "TQ1_0", "MXFP4"),
]


@pytest.fixture
def folder(tmp_path) -> Path:
    """A Llama checkpoint, whose rows of query and key a file has in another order."""
    return representable_checkpoint(Kind.LLAMA, tmp_path)


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> Path:
    """One whose rows are whole blocks of every type."""
    folder = tmp_path_factory.mktemp("wide") / "model"
    write_random_checkpoint(folder, Kind.LLAMA, hidden_size=256, intermediate_size=256, head_dim=64)
    return folder


def assert_close_ropes(ours: Checkpoint, expected: Checkpoint) -> None:
    """A file has factors where a folder has a rule: what they make of frequencies differs in the last bit."""
    for mine, its in zip(ours.config.ropes, expected.config.ropes, strict=True):
        assert np.allclose(mine.frequencies, its.frequencies, rtol=3e-7, atol=0)
        assert abs(mine.scale - its.scale) < 1e-6


def values_of(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    return {name: to_float32(values) for name, values in checkpoint.weights()}


@pytest.mark.parametrize("kind", [*Kind, *FURTHER])
def test_every_architecture_has_its_configuration_and_weights(tmp_path, kind):
    folder = representable_checkpoint(kind, tmp_path)
    expected = load_checkpoint(folder)
    ours = load_checkpoint(write_gguf(folder, tmp_path / "model.gguf"))
    assert replace(ours.config, ropes=()) == replace(expected.config, ropes=())
    assert_close_ropes(ours, expected)
    weights, stored = values_of(ours), values_of(expected)
    assert weights.keys() == stored.keys()
    decays = {name for name in stored if name.endswith("delta_decay")}  # a file has their exponentials
    assert all(np.array_equal(weights[name], stored[name]) for name in stored.keys() - decays)
    for name in decays:
        np.testing.assert_allclose(weights[name], stored[name], rtol=0, atol=1e-6, strict=True)


@pytest.mark.parametrize("kind", [F16, BF16])
def test_plain_types_come_as_their_bits(folder, tmp_path, kind):
    weights = dict(load_checkpoint(write_gguf(folder, tmp_path / "model.gguf", kind)).weights())
    assert weights["layers.2.q"].dtype == {F16: np.float16, BF16: np.uint16}[kind]
    expected = values_of(load_checkpoint(folder))["layers.2.v"]
    assert np.allclose(to_float32(weights["layers.2.v"]), expected, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("kind", QUANTISED)
def test_quantised_types_are_read_by_rows_with_the_same_values(wide, tmp_path, kind, monkeypatch):
    """The same values as of the whole tensor at once, in our order of rows."""
    monkeypatch.setattr("services.engine.checkpoint.checkpoint._PACKED_AT_ONCE", 40_000)
    path = write_gguf(wide, tmp_path / "model.gguf", gguf.GGMLQuantizationType[kind])
    checkpoint, tensors = load_checkpoint(path), {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    pieces = [(name, first, np.array(values)) for name, first, values in checkpoint.pieces()]
    assert len(pieces) > 2 * len({name for name, *_ in pieces})
    found = {name: np.concatenate([values for each, _, values in pieces if each == name]) for name, *_ in pieces}
    stored = tensors["blk.1.attn_q.weight"]
    held = {"MXFP4": "Q8_0"}.get(kind, kind)
    assert (checkpoint.kind("layers.1.q"), stored.tensor_type.name) == (held, kind)
    values = dequantize(stored.data, stored.tensor_type)
    heads = values.reshape(4, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
    assert np.array_equal(found["layers.1.q"], heads)
    stored = tensors["blk.1.ffn_up.weight"]
    assert np.array_equal(found["layers.1.up"], dequantize(stored.data, stored.tensor_type))
    blocks = checkpoint.stored_rows("layers.1.up", 0, len(found["layers.1.up"]))
    assert checkpoint.kind("layers.1.up") == held
    if held == kind:
        assert blocks.tobytes() == stored.data.tobytes()
    else:
        assert np.array_equal(dequantize(blocks, gguf.GGMLQuantizationType[held]), found["layers.1.up"])


@pytest.mark.parametrize(("exponent", "byte", "held"), [(103, 1, "MXFP4"), (103, 0x80, "Q8_0"), (143, 1, "Q8_0")])
def test_mxfp4_is_held_in_bytes_where_all_its_scales_are_float16(folder, tmp_path, exponent, byte, held):
    path = write_gguf(folder, tmp_path / "model.gguf", gguf.GGMLQuantizationType.MXFP4)
    reader = gguf.GGUFReader(path, "r+")
    stored = next(tensor for tensor in reader.tensors if tensor.name == "blk.1.ffn_up.weight")
    stored.data[3, 17:34] = [exponent, *[byte] * 16]
    reader.data.flush()
    checkpoint = load_checkpoint(path)
    assert (checkpoint.kind("layers.1.up"), checkpoint.kind("layers.1.down")) == (held, "Q8_0")
    rows = checkpoint.stored_rows("layers.1.up", 2, 5)
    values = dict(checkpoint.weights())["layers.1.up"][2:5]
    assert np.array_equal(dequantize(rows, gguf.GGMLQuantizationType[held]), values)
    assert values[1, 32:64].any() == (byte == 1)


def test_stored_rows_of_a_folder_are_its_rows(folder):
    checkpoint = load_checkpoint(folder)
    rows = checkpoint.stored_rows("layers.2.q", 0, 128)
    assert (checkpoint.kind("layers.2.q"), rows.shape) == ("F32", (128, 4 * 128))
    assert np.array_equal(rows.view(np.float32), dict(checkpoint.weights())["layers.2.q"])


def test_a_split_model_is_the_whole_one(folder, tmp_path):
    whole = load_checkpoint(write_gguf(folder, tmp_path / "whole.gguf", BF16))
    first = write_gguf(folder, tmp_path / "split.gguf", BF16, tensors_each=10)
    split = load_checkpoint(first)
    assert len(split.file_states()) > 3
    assert split.config == whole.config
    assert split.weights_digest() == whole.weights_digest()
    assert Tokenizer.from_model(first).fingerprint() == Tokenizer.from_model(tmp_path / "whole.gguf").fingerprint()


def test_a_broken_split_model_is_refused_with_the_reason(folder, tmp_path):
    first = write_gguf(folder, tmp_path / "split.gguf", tensors_each=20)
    second = Path(str(first).replace("-00001-", "-00002-"))
    with pytest.raises(CheckpointError, match=r"later part of a split model; name its first one, split-00001-of-0000"):
        load_checkpoint(second)
    second.rename(tmp_path / "elsewhere.gguf")
    with pytest.raises(CheckpointError, match=r"split-00002-of-0000\d\.gguf: no such file"):
        load_checkpoint(first)
    second.write_bytes(first.read_bytes())
    with pytest.raises(CheckpointError, match=r"'split\.no': must be 1, by the file's name, is 0|is in .* too"):
        load_checkpoint(first)
    first.rename(tmp_path / "model.gguf")
    with pytest.raises(CheckpointError, match=r"'split\.count': is \d, but the file's name does not end in -of-"):
        load_checkpoint(tmp_path / "model.gguf")


def test_digest_sees_type_values_and_settings(folder, tmp_path):
    def digest(name: str, *args: object, **keys: object) -> str:
        return load_checkpoint(write_gguf(folder, tmp_path / name, *args, **keys)).weights_digest()

    digests = [digest("a.gguf"), digest("b.gguf", BF16), digest("c.gguf", rope__freq_base=500.0), digest("d.gguf")]
    assert len({*digests}) == 3
    assert digests[0] == digests[3]


def test_end_tokens_are_the_files_and_those_named_so(folder, tmp_path):
    checkpoint = load_checkpoint(write_gguf(folder, tmp_path / "model.gguf"))
    assert SPECIAL_TOKENS[1] == "<|end|>"
    assert checkpoint.eos_token_ids == (1,)
    assert checkpoint.generation == {}


def test_recommended_sampling_numbers_are_read(folder, tmp_path):
    recommended = {"general__sampling__temp": 0.6, "general__sampling__top_k": 20}
    path = write_gguf(folder, tmp_path / "model.gguf", **recommended)
    assert load_checkpoint(path).generation == {"temperature": 0.6, "top_k": 20}
    path = write_gguf(folder, tmp_path / "model.gguf", **recommended, general__sampling__top_p=7.0)
    with pytest.raises(
        CheckpointError, match=r"field 'general\.sampling\.top_p': must be a finite number from .* is 7"
    ):
        load_checkpoint(path)


def test_the_vocabulary_is_that_of_the_folder(folder, tmp_path):
    path = write_gguf(folder, tmp_path / "model.gguf")
    ours, expected = Tokenizer.from_model(path), Tokenizer.from_model(folder)
    load_checkpoint(path).check_vocabulary(ours)
    assert ours.fingerprint() == expected.fingerprint()
    assert (ours.special_ids, ours.vocab_size) == (expected.special_ids, expected.vocab_size)
    assert ours.encode("Hello, world 123") == expected.encode("Hello, world 123")
    assert ours.vocab_size < VOCAB_SIZE


BAD = [
    (
        {"expert_shared_feed_forward_length": 8},
        "expert_shared_feed_forward_length': only 0 or false is supported",
    ),
    ({"expert_count": 8}, "field 'llama.expert_used_count': is missing"),
    ({"expert_count": 8, "expert_used_count": 2}, "tensor 'blk.0.ffn_gate_inp.weight' is missing; MixtralForCausalLM"),
    ({"expert_gating_func": 2}, "key 'llama.expert_gating_func': only 1, softmax, is supported, is 2"),
    ({"attention__causal": False}, "key 'llama.attention.causal': only true is supported"),
    (
        {"rope__scaling__type": "dynamic", "rope__scaling__factor": 4.0},
        "'llama.rope.scaling.type': 'dynamic' is not supported; allowed are none, linear, yarn and longrope",
    ),
    (
        {"rope__scaling__type": "yarn", "rope__scaling__factor": -4.0},
        "'llama.rope.scaling.factor': must be a finite number",
    ),
    (
        {"rope__scaling__type": "yarn", "rope__scaling__yarn_beta_slow": "slow"},
        "'llama.rope.scaling.yarn_beta_slow': must be a finite number",
    ),
    (
        {"rope__scaling__type": "yarn", "rope__scaling__yarn_ext_factor": 0.5},
        "'llama.rope.scaling.yarn_ext_factor': only 1 is supported here, is 0.5",
    ),
    (
        {"rope__scaling__type": "yarn", "rope__scaling__yarn_log_multiplier": 0.5},
        "'llama.rope.scaling.yarn_log_multiplier': only 0 or false is supported, is 0.5",
    ),
    (
        {"rope__scaling__attn_factor": 1.25},
        "'llama.rope.scaling.attn_factor': only 1 is supported here, is 1.25",
    ),
    ({"rope__dimension_count": 16}, "field 'llama.rope.dimension_count': only 1.0 is supported"),
    ({"block_count": 0}, "field 'llama.block_count': must be a whole number from 1 to 1024, is 0"),
    (
        {"block_count": 2},
        "' has no place in LlamaForCausalLM as the file's metadata describes it",
    ),
    ({"block_count": 5}, "tensor 'blk.4.attn_q.weight' is missing; LlamaForCausalLM needs it"),
    ({"attention__head_count": [4, 4, 2, 4]}, "'llama.attention.head_count': must be a whole number from 1 to 1024"),
    ({"attention__value_length": 16}, "key 'llama.attention.value_length': must be that of keys, 32, is 16"),
    (
        {"feed_forward_length": 64},
        "tensor 'blk.0.ffn_gate.weight' has shape [192, 128]; by the file's metadata it must",
    ),
    (
        {"embedding_length": "many"},
        "field 'llama.embedding_length': must be a whole number from 1 to 131072, is 'many'",
    ),
    ({"attention__layer_norm_rms_epsilon": -1.0}, "'llama.attention.layer_norm_rms_epsilon': must be a finite number"),
]


@pytest.mark.parametrize(("keys", "problem"), BAD, ids=[problem[:40] for _, problem in BAD])
def test_unsupported_keys_are_refused_by_name(tmp_path, keys, problem):
    folder = representable_checkpoint(Kind.LLAMA_LINEAR if "rope__scaling__type" in keys else Kind.LLAMA, tmp_path)
    path = write_gguf(folder, tmp_path / "model.gguf", **keys)
    with pytest.raises(CheckpointError) as refused:
        load_checkpoint(path)
    assert str(path) in str(refused.value)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("architecture", "reason"),
    [
        ("decilm", ""),
        (
            "mamba",
            ": it has a recurrent state (state space, delta rule), which cannot be rewound",
        ),
        (
            "kimi-linear",
            ": it has a recurrent state (state space, delta rule), which cannot be rewound",
        ),
        ("ernie4_5-moe", ": it is a mixture of experts of an unsupported kind: "),
        ("clip", ": it is the part that reads images or sound: name the file of the model itself, "),
        ("nomic-bert", ": it encodes texts and generates none: "),
        ("t5", ": its decoder attends to the output of an encoder: "),
        ("qwen2vl", ": it reads images or video beside text: "),
        ("minicpm3", ": it has latent attention of an unsupported kind (sparse, with a recurrent state, "),
        ("bailingmoe", ": it is a mixture of experts of an unsupported kind: "),
        ("gpt2", ": its layers have an older, unsupported structure: "),
    ],
)
def test_an_architecture_that_is_not_served_is_refused_by_name(tmp_path, architecture, reason):
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    finish(writer)
    with pytest.raises(CheckpointError) as refused:
        load_checkpoint(path)
    allowed = "allowed are llama, qwen2, qwen3, phi3, olmo2, gemma2, gemma3, gemma4, mistral3, smollm3, granite, glm4, "
    allowed += "stablelm, starcoder2, command-r, cohere2, lfm2, lfm2moe, glm4moe, deepseek2, qwen35, "
    allowed += "qwen35moe, qwen3next, "
    allowed += "olmoe, qwen3moe, qwen2moe, gpt-oss"
    said = str(refused.value)
    assert said.startswith(f"{path}: key 'general.architecture': '{architecture}' is not supported{reason}")
    assert said.endswith(f"; {allowed}")


def test_a_file_that_is_missing_is_said_to_be(tmp_path):
    with pytest.raises(CheckpointError, match=r"none\.gguf: no such file"):
        load_checkpoint(tmp_path / "none.gguf")


def test_heads_apart_and_tied_are_kept_as_the_file_has_them(tmp_path):
    tied = load_checkpoint(write_gguf(random_checkpoint(Kind.QWEN3), tmp_path / "tied.gguf", F32))
    assert tied.config.tied_embeddings
    assert "lm_head" not in dict(tied.weights())
    apart = load_checkpoint(write_gguf(random_checkpoint(Kind.LLAMA), tmp_path / "apart.gguf", F32))
    assert "lm_head" in dict(apart.weights())
