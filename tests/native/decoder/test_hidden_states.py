"""Hidden states after the last norm: those of transformers, and each row has the same bits whatever the others are."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.native.harness.devices import DEVICES, make_device
from tests.native.harness.parity import PROMPT, relative_error
from tests.native.harness.random_models import MODELS, PLAIN, PagedDecoder, random_tokens
from tests.native.harness.row_invariance import random_passes, same_bits

SCALED = "norm of each head, biases, a group of eight, sinks"  # whose logits are scaled

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def transformers_states(folder: Path, dtype: torch.dtype) -> torch.Tensor:
    """Those of the prompt.  # [prompt, hidden]"""
    name = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    decoder = getattr(transformers, name).from_pretrained(folder, dtype=dtype, attn_implementation="eager")
    with torch.inference_mode():
        return decoder(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states[-1][0].float()


def native_states(folder: Path, device_name: str, dtype: str) -> torch.Tensor:
    """Those of the prompt.  # [prompt, hidden]"""
    num_blocks = -(-len(PROMPT) // BLOCK_SIZE)
    device = make_device(device_name, threads=1)
    decoder = load_decoder(load_checkpoint(folder), device, weights=dtype, kv=dtype, num_blocks=num_blocks)
    batch = Batch(max_rows=len(PROMPT), max_sequences=1, max_blocks=num_blocks)
    batch.append(PROMPT, position=0, blocks=range(num_blocks), num_logits=0)
    return torch.from_numpy(decoder.forward(batch).hidden_states(0, len(PROMPT)))


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize("kind", [Kind.LLAMA, Kind.GEMMA2])
def test_hidden_states_match_transformers_in_float32(kind, device_name):
    folder = random_checkpoint(kind)
    truth = transformers_states(folder, torch.float32)
    assert relative_error(native_states(folder, device_name, "f32"), truth) < 1e-4


def test_the_logit_scale_does_not_scale_hidden_states():
    folder = further_checkpoint(Further.GRANITE)
    assert load_checkpoint(folder).config.logit_scale != 1.0
    truth = transformers_states(folder, torch.float32)
    assert relative_error(native_states(folder, DEVICES[0], "f32"), truth) < 1e-4


@pytest.mark.parametrize("device_name", DEVICES)
def test_bfloat16_hidden_states_are_as_exact_as_transformers(device_name):
    folder = random_checkpoint(Kind.LLAMA, torch.bfloat16)
    truth = transformers_states(folder, torch.float32)
    error = relative_error(transformers_states(folder, torch.bfloat16), truth)
    assert relative_error(native_states(folder, device_name, "bf16"), truth) <= 1.5 * error


@pytest.mark.parametrize("model", [PLAIN, MODELS[SCALED]], ids=["plain", "scaled"])
@pytest.mark.parametrize("device_name", DEVICES)
def test_each_row_has_its_own_bits(model, device_name):
    tokens = random_tokens(model, 2, 20)
    lone = PagedDecoder(model, make_device(device_name, threads=1), "bf16", tokens=tokens)
    alone = np.empty((2, 20, model.hidden_size), np.float32)
    for sequence in range(2):
        alone[sequence] = lone.run([(sequence, position) for position in range(20)]).hidden_states(0, 20)
    mixed = PagedDecoder(model, make_device(device_name, threads=2), "bf16", tokens=tokens, seed=1)
    for rows in random_passes(np.random.default_rng(1), 2, 20):
        computed = mixed.run(rows)
        middle = len(rows) // 2
        first, last = (computed.hidden_states(*part) for part in ((0, middle + 1), (middle, len(rows) - middle)))
        assert same_bits(np.concatenate([first[:middle], last]), np.stack([alone[row] for row in rows]))


@pytest.mark.parametrize("device_name", DEVICES)
def test_hidden_states_of_rows_outside_the_pass_are_refused(device_name):
    paged = PagedDecoder(PLAIN, make_device(device_name, threads=1), "bf16", tokens=random_tokens(PLAIN, 1, 4))
    computed = paged.run([(0, position) for position in range(4)])
    for first_row, num_rows, said in ((0, 0, "num_rows is 0"), (-1, 2, "first_row is -1"), (0, 5, "num_rows is 5")):
        with pytest.raises(ValueError, match=said):
            computed.hidden_states(first_row, num_rows)


def test_results_of_an_earlier_pass_are_refused():
    paged = PagedDecoder(PLAIN, make_device(DEVICES[0], threads=1), "bf16", tokens=random_tokens(PLAIN, 1, 4))
    first, last = (paged.run([(0, position)]) for position in range(2))
    last.hidden_states(0, 1)
    with pytest.raises(RuntimeError, match="another pass"):
        first.hidden_states(0, 1)
    paged.decoder.reserve(max_rows=4, max_logits=4, max_sequences=1, max_blocks=1)
    with pytest.raises(RuntimeError, match="another pass"):
        last.hidden_states(0, 1)
