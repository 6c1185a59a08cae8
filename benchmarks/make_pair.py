"""Make the synthetic pair for benchmarks: `python -m benchmarks.make_pair OUT`.

The target has the shape of Llama-3.2-1B or Llama-3.1-8B, a vocabulary of 32768 and random weights. The draft is its
first two layers, or the first four of the 8B shape, which have the size of a 1B model. The contributions of the deeper
layers are scaled, by bisection, until both models agree on the most likely next token as often as requested. Embeddings
are small compared with what the first layers add, so that no token predicts itself.
"""

import argparse
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

_COMMON: dict[str, Any] = {
    "vocab_size": 32768,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    "bos_token_id": 0,
    "eos_token_id": 1,
}
_SIZES_1B = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "head_dim": 64}
_SIZES_8B = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "head_dim": 128}
_SMALLEST = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 8}
SHAPES = {
    "1b": {**_COMMON, **_SIZES_1B, "tie_word_embeddings": True},
    "8b": {**_COMMON, **_SIZES_8B, "tie_word_embeddings": False},
    "smallest": {  # to test the benchmarks with
        **_COMMON,
        **_SMALLEST,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
}
DRAFT_LAYERS = {"1b": 2, "8b": 4, "smallest": 1}
_LOGIT_SPREAD = 6.0
_BATCHES, _TOKENS = 4, 256  # of random text, on which the models are compared
_BISECTIONS = 10


def main() -> None:
    """Make the pair and print how often its models agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for target/ and draft/")
    parser.add_argument("--agreement", type=float, default=0.8, help="on the most likely token (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the weights (%(default)s)")
    parser.add_argument("--shape", choices=SHAPES, default="1b", help="of the target (%(default)s)")
    parser.add_argument("--layers", type=int, help="of the target (default: the shape's)")
    parser.add_argument("--device", default="cpu", help="the device of torch (%(default)s)")
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape]
    layers = {"num_hidden_layers": arguments.layers} if arguments.layers else {}
    target = random_target(arguments.seed, {**shape, **layers}, device=arguments.device)
    draft_layers = DRAFT_LAYERS[arguments.shape]
    scale = find_scale(target, draft_layers, arguments.agreement)
    scale_deeper_layers(target, draft_layers, scale)
    agreement = measure_agreement(target, draft_layers)
    save_pair(target, draft_layers, arguments.out)
    print(json.dumps({"scale": scale, "agreement": agreement, "parameters": target.num_parameters()}))


def random_target(seed: int, shape: Mapping[str, object], *, device: str) -> transformers.LlamaForCausalLM:
    """Return a bf16 model with every sublayer's output as large as its input; the weights depend on the device."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(**shape, dtype=torch.bfloat16)
    with transformers.initialization.no_init_weights(), torch.device(device):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()
    model.tie_weights()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("norm.weight"):
                weight.fill_(1.0)
            elif "embed_tokens" in name or "lm_head" in name:
                weight.normal_(0.0, 0.02)
            else:
                gain = 4.0 if "down_proj" in name else 1.0  # a gated activation halves what goes through, and more
                weight.normal_(0.0, gain * weight.shape[1] ** -0.5)
        model.model.norm.weight.fill_(_LOGIT_SPREAD / (0.02 * config.hidden_size**0.5))
    return model


def find_scale(model: transformers.LlamaForCausalLM, draft_layers: int, wanted: float) -> float:
    """Return the scale of the deeper layers at which the draft agrees with the target as often as wanted."""
    low, high, applied = 1e-4, 1.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low * high) ** 0.5
        scale_deeper_layers(model, draft_layers, middle / applied)
        applied = middle
        low, high = (middle, high) if measure_agreement(model, draft_layers) > wanted else (low, middle)
    scale_deeper_layers(model, draft_layers, 1.0 / applied)
    return math.sqrt(low * high)


@torch.no_grad()
def scale_deeper_layers(model: transformers.LlamaForCausalLM, draft_layers: int, factor: float) -> None:
    """Scale what the layers that the draft does not have add to the residual."""
    for layer in model.model.layers[draft_layers:]:
        layer.self_attn.o_proj.weight.mul_(factor)
        layer.mlp.down_proj.weight.mul_(factor)


@torch.inference_mode()
def measure_agreement(model: transformers.LlamaForCausalLM, draft_layers: int) -> float:
    """Return the share of positions of random text at which target and draft rank the same token first."""
    generator = torch.Generator().manual_seed(0)
    text = torch.randint(model.config.vocab_size, (_BATCHES, _TOKENS), generator=generator).to(model.device)
    expected = model(text, use_cache=False).logits.argmax(-1)
    with first_layers(model, draft_layers):
        predicted = model(text, use_cache=False).logits.argmax(-1)
    return float((expected == predicted).float().mean().item())


@contextmanager
def first_layers(model: transformers.LlamaForCausalLM, count: int) -> Iterator[None]:
    """Reduce the model to its first `count` layers within this context."""
    layers = model.model.layers
    model.model.layers = layers[:count]
    model.config.num_hidden_layers = count
    try:
        yield
    finally:
        model.model.layers = layers
        model.config.num_hidden_layers = len(layers)


def save_pair(model: transformers.LlamaForCausalLM, draft_layers: int, out: Path) -> None:
    """Write both models with a tokenizer each."""
    model.save_pretrained(out / "target")
    with first_layers(model, draft_layers):
        model.save_pretrained(out / "draft")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=syllables(), bos_token="<|begin|>", eos_token="<|end|>"
    )
    for name in ("target", "draft"):
        tokenizer.save_pretrained(out / name)


def syllables() -> Tokenizer:
    """Return a byte-level tokenizer with a token for every id: bytes, and up to three letters, also after a space."""
    tokens = ["<|begin|>", "<|end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges = []
    for start in ("", "Ġ"):
        for length in (1, 2, 3):
            for letters in product(ascii_lowercase, repeat=length):
                head, last = start + "".join(letters[:-1]), letters[-1]
                if head:
                    merges.append((head, last))
    merges = list(islice(sorted(merges, key=lambda pair: len(pair[0])), _COMMON["vocab_size"] - len(tokens)))
    tokens += ["".join(pair) for pair in merges]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|begin|>", "<|end|>"])
    return tokenizer


if __name__ == "__main__":
    main()
