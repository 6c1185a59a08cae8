"""A model's own layer for multi-token prediction computes what transformers' layers and norms compute."""

from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor, nn

from services.engine.checkpoint.attached.attached_drafter import find_own_drafter
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import fill_decoder, new_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch
from tests.harness.models.checkpoints import edit_weights
from tests.harness.models.further_checkpoints import Further, stack_experts
from tests.harness.models.gguf_files import write_gguf
from tests.harness.models.mtp_folders import AROUND, AROUND_GLM, write_mtp_folder
from tests.native.harness.devices import DEVICES, make_device
from tests.native.harness.parity import PROMPT, relative_error

TOKENS = PROMPT[:40]
GLM_LAYER = "model.layers.4."
READ = 30  # rows that read the target's features; those after them are chained
KINDS = (
    *(Further.QWEN3_5, Further.QWEN3_5_PICTURES, Further.QWEN3_5_MOE, Further.QWEN3_NEXT, Further.GLM4_MOE),
    *(Further.GLM4_MOE_LITE, Further.DEEPSEEK_V3),
)


class Oracle:
    """The layer as a model of one layer by transformers, whose inputs are embeddings."""

    def __init__(self, folder: Path) -> None:
        name = transformers.AutoConfig.from_pretrained(folder).architectures[0]
        target = getattr(transformers, name).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        text = target.model.language_model if hasattr(target.model, "language_model") else target.model
        config = text.config.__class__(**text.config.to_dict())
        config.num_hidden_layers, config.layer_types = 1, ["full_attention"]
        config._attn_implementation, config.first_k_dense_replace = "eager", 0
        config.mlp_layer_types = ["sparse"]
        self.text, self.head, self.layer = text, target.lm_head, type(text)(config).eval()
        own = _mtp_tensors(folder)
        self.fc = own.pop("fc.weight")
        norms = {name: own.pop(f"{name}.weight") for name in ("embedding", "hidden")}
        self.norms = {name: _norm_of(self.layer.norm, weight) for name, weight in norms.items()}
        own["embed_tokens.weight"] = text.embed_tokens.weight
        self.layer.load_state_dict(own)

    @torch.inference_mode()
    def logits(self, tokens: list[int], num_read: int) -> Tensor:
        """Those of each row but the last token's; after `num_read` rows the hidden vectors are the layer's own."""
        hidden = self.text(torch.tensor([tokens])).last_hidden_state[0, :num_read]
        for _ in range(num_read, len(tokens)):
            hidden = torch.cat([hidden, self._outputs(tokens, hidden)[-1:]])
        return self.head(self._outputs(tokens, hidden[:-1]))

    def _outputs(self, tokens: list[int], hidden: Tensor) -> Tensor:
        embedded = self.text.embed_tokens(torch.tensor(tokens[1 : len(hidden) + 1]))
        both = torch.cat([self.norms["embedding"](embedded), self.norms["hidden"](hidden)], dim=-1)
        return self.layer(inputs_embeds=(both @ self.fc.T)[None]).last_hidden_state[0]


def _mtp_tensors(folder: Path) -> dict[str, Tensor]:
    """Under the names of a model of one layer, and those of the dictionary of what lies around it."""
    stored: dict[str, Tensor] = {}
    edit_weights(folder, stored.update)
    found = {name: each for name, each in stored.items() if name.startswith(("mtp.", GLM_LAYER))}
    found = {name.removeprefix("mtp.").replace(GLM_LAYER, "layers.0."): each for name, each in found.items()}
    for copy in ("layers.0.embed_tokens.weight", "layers.0.shared_head.head.weight"):
        found.pop(copy, None)
    for names in (AROUND, {part: f"layers.0.{name}" for part, name in AROUND_GLM.items()}):
        for part, name in names.items():
            if f"{name}.weight" in found:
                found[f"{part}.weight"] = found.pop(f"{name}.weight")
    if any(".experts.0." in name for name in found):
        stack_experts(found)
    return found


def _norm_of(like: nn.Module, weight: Tensor) -> nn.Module:
    norm = type(like)(len(weight), eps=getattr(like, "eps", None) or like.variance_epsilon)
    norm.load_state_dict({"weight": weight})
    return norm


class Native:
    """The target's decoder and its own drafter."""

    def __init__(self, path: Path) -> None:
        checkpoint, device = load_checkpoint(path), make_device(DEVICES[0], threads=1)
        drafter = find_own_drafter(checkpoint)
        assert drafter is not None
        self.blocks = range(-(-len(TOKENS) // BLOCK_SIZE))
        sizes = {"weights": "f32", "kv": "f32", "num_blocks": len(self.blocks)}
        self.target = new_decoder(checkpoint, device, **sizes)
        self.slot = 0 if checkpoint.config.has_states else None
        if self.slot is not None:
            self.target.allocate_states(num_slots=1, ring_rows=8)
        self.target.keep_features(drafter.boundaries)
        fill_decoder(checkpoint, self.target, device, "f32")
        self.drafter = new_decoder(drafter.checkpoint, device, **sizes, target=self.target)
        fill_decoder(drafter.checkpoint, self.drafter, device, "f32")

    def logits(self) -> Tensor:
        batch = self._batch(TOKENS[:READ], 0, READ, slot=self.slot)
        self.drafter.read_features(self.target.forward(batch), range(READ))
        first = self.drafter.forward(self._batch(TOKENS[1 : READ + 1], 0, READ)).logits.numpy()
        rows = [torch.from_numpy(first)]
        results = self.target.forward(self._batch(TOKENS[:READ], 0, READ, slot=self.slot))
        self.drafter.read_features(results, range(READ))
        self.drafter.forward(self._batch(TOKENS[1 : READ + 1], 0, 1))  # only the last row is carried over
        for row in range(READ, len(TOKENS) - 1):
            results = self.drafter.forward(self._batch(TOKENS[row + 1 : row + 2], row, 1))
            rows.append(torch.from_numpy(results.logits.numpy()))
        return torch.cat(rows)

    def _batch(self, token_ids: list[int], position: int, num_logits: int, slot: int | None = None) -> Batch:
        batch = Batch(max_rows=len(TOKENS), max_sequences=1, max_blocks=len(self.blocks))
        batch.append(
            token_ids, position=position, blocks=self.blocks, num_logits=num_logits, slot=slot, state_position=position
        )
        return batch


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_the_chain_after_them_match_transformers(tmp_path, kind):
    folder = write_mtp_folder(kind, tmp_path)
    wanted = Oracle(folder).logits(TOKENS, READ)
    assert relative_error(Native(folder).logits(), wanted) < 1e-4


@pytest.mark.parametrize("kind", [Further.QWEN3_5_MOE, Further.QWEN3_NEXT])
def test_stacked_experts_are_those_of_single_tensors(tmp_path, kind):
    folder = write_mtp_folder(kind, tmp_path)
    expected = Native(folder).logits()
    edit_weights(folder, stack_experts)
    assert torch.equal(Native(folder).logits(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_gguf_file_has_the_same_layer(tmp_path, kind):
    folder = write_mtp_folder(kind, tmp_path)
    path = write_gguf(folder, tmp_path / "model.gguf")
    assert relative_error(Native(path).logits(), Native(folder).logits()) < 1e-5
