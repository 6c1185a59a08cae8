"""A drafter of Gemma 4 that reads its target's keys and values computes what transformers computes."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor
from transformers.models.gemma4 import modeling_gemma4
from transformers.models.gemma4_unified import modeling_gemma4_unified

from services.engine.checkpoint.attached.assistant import load_assistant
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.model_config import Layer
from services.engine.decoder.model_loader import fill_decoder, fill_shared, new_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch, Decoder, DecoderConfig, Sampler, SamplingState
from services.engine.decoder.native.testing import poison
from services.engine.files.checkpoint_error import CheckpointError
from tests.harness.models.assistant_folders import all_layers_shared, write_assistant
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.native.harness.devices import DEVICES, emulated_device, make_device, needs_emulation
from tests.native.harness.parity import PROMPT, relative_error
from tests.native.harness.sampling_reference import Settings

TOKENS = PROMPT[:76]
BLOCKS = -(-len(TOKENS) // BLOCK_SIZE)  # of a text
LENGTHS = (2, 17, 32, 33, 70)  # tokens of a text whose last one the target has not computed
STEPS = 3
KINDS = (Further.GEMMA4, Further.GEMMA4_SMALL, Further.GEMMA4_UNIFIED)
KeysAndValues = dict[int, tuple[Tensor, Tensor]]


@contextmanager
def keys_and_values(store: KeysAndValues) -> Iterator[None]:
    """Keep those that each layer attends to."""
    modules = (modeling_gemma4, modeling_gemma4_unified)
    plain = {module: module.eager_attention_forward for module in modules}

    def attend(module, query, key, value, *others, **options):
        store[module.layer_idx] = key, value
        return plain[modeling_gemma4](module, query, key, value, *others, **options)

    for module in modules:
        module.eager_attention_forward = attend
    try:
        yield
    finally:
        for module in modules:
            module.eager_attention_forward = plain[module]


class Oracle:
    """Both by transformers."""

    def __init__(self, target: Path, drafter: Path) -> None:
        eager = {"dtype": torch.float32, "attn_implementation": "eager"}
        name = transformers.AutoConfig.from_pretrained(target).architectures[0]
        whole = getattr(transformers, name).from_pretrained(target, **eager)
        self.text = whole.model.language_model if hasattr(whole.model, "language_model") else whole.model
        with all_layers_shared():
            name = transformers.AutoConfig.from_pretrained(drafter).architectures[0]
            self.drafter = getattr(transformers, name).from_pretrained(drafter, **eager)

    @torch.inference_mode()
    def logits(self, length: int) -> Tensor:
        """Those of the predictions after so many tokens, where each one drawn is the next of the text.  # [steps, …]"""
        found: KeysAndValues = {}
        with keys_and_values(found):
            hidden = self.text(torch.tensor([TOKENS[: length - 1]]), use_cache=False).last_hidden_state[:, -1:]
        shared = {}
        for kind in ("sliding_attention", "full_attention"):
            last = [index for index, each in enumerate(self.text.config.layer_types) if each == kind]
            shared[kind] = found[max(last)]
        rows = []
        for token in TOKENS[length - 1 : length - 1 + STEPS]:
            both = torch.cat([self.text.embed_tokens(torch.tensor([[token]])), hidden], dim=-1)
            position = torch.tensor([[length - 1]])
            output = self.drafter(inputs_embeds=both, position_ids=position, shared_kv_states=shared)
            hidden = output.last_hidden_state
            rows.append(output.logits[0, 0])
        cap = self.drafter.config.text_config.final_logit_softcapping  # which does not change the order of tokens
        return cap * torch.tanh(torch.stack(rows) / cap)


class Native:
    """The target's decoder and the drafter's; each text has blocks of its own."""

    def __init__(self, target: Path, drafter: Path, device_name: str, *, weights: str = "f32") -> None:
        checkpoint, device = load_checkpoint(target), make_device(device_name, threads=1)
        assistant = load_assistant(drafter, checkpoint.config)
        sizes = {"weights": weights, "kv": weights, "num_blocks": len(LENGTHS) * BLOCKS}
        self.target = new_decoder(checkpoint, device, **sizes)
        self.target.keep_features(assistant.boundaries)
        fill_decoder(checkpoint, self.target, device, weights)
        self.drafter = new_decoder(assistant.checkpoint, device, **sizes, target=self.target)
        fill_shared(checkpoint, assistant.checkpoint, self.drafter)
        fill_decoder(assistant.checkpoint, self.drafter, device, weights)
        self.device, self.sampler = device, Sampler(device)

    def logits(self, length: int) -> Tensor:
        first = self.read([length])
        later = (self._batch([[token]], [length]) for token in TOKENS[length : length - 1 + STEPS])
        rows = (self.drafter.forward(batch).logits.numpy() for batch in chain([first], later))
        return torch.cat([torch.from_numpy(each.copy()) for each in rows])

    def read(self, lengths: Seq[int]) -> Batch:
        """Compute all but the last token of texts; returns the batch of the drafter that goes on after them."""
        poison(self.target, range(len(LENGTHS) * BLOCKS))  # no position after them is read
        batch = self._batch([TOKENS[: length - 1] for length in lengths], [1] * len(lengths))
        rows = [*accumulate(length - 1 for length in lengths)]
        self.drafter.read_features(self.target.forward(batch), [row - 1 for row in rows])
        return self._batch([[TOKENS[length - 1]] for length in lengths], lengths)

    def _batch(self, texts: Seq[Seq[int]], firsts: Seq[int]) -> Batch:
        """Tokens of texts, the first of each the text's token of a number counted from 1."""
        batch = Batch(max_rows=len(LENGTHS) * len(TOKENS), max_sequences=len(LENGTHS), max_blocks=BLOCKS)
        for number, (token_ids, first) in enumerate(zip(texts, firsts, strict=True)):
            blocks = range(number * BLOCKS, (number + 1) * BLOCKS)
            batch.append([*token_ids], position=first - 1, blocks=blocks, num_logits=1)
        return batch


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("drafter") / "drafter"
    return further_checkpoint(request.param), write_assistant(folder, request.param)


@pytest.fixture(scope="module")
def wanted(pair: tuple[Path, Path]) -> list[Tensor]:
    oracle = Oracle(*pair)
    return [oracle.logits(length) for length in LENGTHS]


@pytest.mark.parametrize("device_name", DEVICES)
def test_predictions_one_after_another_match_transformers(pair, wanted, device_name):
    native = Native(*pair, device_name)
    for length, logits in zip(LENGTHS, wanted, strict=True):
        assert relative_error(native.logits(length), logits) < 2e-4, length


@pytest.mark.parametrize("device_name", DEVICES)
def test_runs_in_one_call_draw_what_each_draws_alone(pair, device_name):
    def states() -> list[SamplingState]:
        return [Settings(seed=length, temperature=1.0).state(TOKENS[:length]) for length in LENGTHS]

    native, counts = Native(*pair, device_name, weights="bf16"), [4, 1, 6, 3, 2]
    runs = [[] for _ in counts]
    drawn = native.drafter.extend(native.read(LENGTHS), native.sampler, states(), runs, counts)
    assert [len(each) for each in drawn] == counts
    for length, state, run in zip(LENGTHS, states(), drawn, strict=True):
        batch, alone = native.read([length]), []
        for _ in run:
            alone += native.drafter.extend(batch, native.sampler, [state], [alone], [1])[0]
            batch = native._batch([alone[-1:]], [length])
        assert alone == run, length


def test_what_does_not_fit_the_target_is_refused(pair):
    native = Native(*pair, DEVICES[0])
    native.read([3])
    with pytest.raises(ValueError, match=r"positions is 0; it must be in 1"):
        native.drafter.forward(native._batch([TOKENS[:1]], [1]))
    assistant, device = load_assistant(pair[1], load_checkpoint(pair[0]).config).checkpoint, native.device
    with pytest.raises(CheckpointError, match="kv: must be the target's"):
        new_decoder(assistant, device, weights="f32", kv="bf16", target=native.target)
    first, second, third = assistant.config.layers

    def make(layers: tuple[Layer, ...]) -> Decoder:
        config = DecoderConfig(replace(assistant.config, layers=layers))
        return Decoder(native.device, config, weights="f32", kv="f32", target=native.target)

    for layers, said in (
        ((replace(first, target_layer=9), second, third), r"layers\[0\].target_layer is 9; it must be in 0"),
        ((first, replace(second, target_layer=third.target_layer), third), r"layers\[1\].head_dim is 16; it must be"),
        ((first, second, replace(third, target_layer=None)), "target_layer must be given for all layers"),
        ((replace(first, target_layer=None), second, third), "target_layer must be given for all layers"),
    ):
        with pytest.raises(ValueError, match=said):
            make(layers)


@needs_emulation
def test_a_divided_target_is_refused(tmp_path):
    checkpoint = load_checkpoint(further_checkpoint(Further.GEMMA4_UNIFIED))
    assistant = load_assistant(write_assistant(tmp_path / "drafter", Further.GEMMA4_UNIFIED), checkpoint.config)
    devices = [emulated_device(1) for _ in range(2)]
    target = new_decoder(checkpoint, devices, weights="bf16", kv="bf16", num_blocks=1)
    with pytest.raises(CheckpointError, match="target: must be on one device for a drafter that reads its keys"):
        new_decoder(assistant.checkpoint, devices[0], weights="bf16", kv="bf16", target=target)
