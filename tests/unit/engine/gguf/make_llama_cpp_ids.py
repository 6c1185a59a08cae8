"""Makes llama_cpp_ids.json anew: small vocabularies, and the ids that llama.cpp gives odd texts with each.

    python -m tests.unit.engine.gguf.make_llama_cpp_ids

It needs llama-cpp-python beside what the tests need, in an environment of its own or in this one.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import llama_cpp
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from services.engine.gguf.pre_tokenizers import PRE_TOKENIZERS
from tests.harness.models.gguf_vocabularies import write_vocabulary
from tests.harness.odd_texts import CONTROL_TEXTS, ODD_TEXTS

ROOT = Path(__file__).parents[4]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def train(*, byte_level: bool) -> tuple[list[str], list[str]]:
    """Tokens and merges of a small BPE, which has seen the odd texts.

    The one on bytes has merged across words, so that its ids show every place where a pre-tokenizer cuts.
    """
    tokenizer = Tokenizer(models.BPE())
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = as_bytes if byte_level else pre_tokenizers.Metaspace()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet()) if byte_level else []
    size = 6000 if byte_level else 900
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    page = [] if byte_level else [(ROOT / "docs" / "inside" / "speculation.md").read_text()]
    tokenizer.train_from_iterator([*ODD_TEXTS, *page], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [" ".join(merge) for merge in model["merges"]]


def bpe() -> dict[str, Any]:
    tokens, merges = train(byte_level=True)
    added = ["<|begin|>", "<|end|>", "<|mark|>"]
    types = [*[NORMAL] * len(tokens), CONTROL, CONTROL, USER_DEFINED, UNUSED]
    keys = {"bos_token_id": len(tokens), "eos_token_id": len(tokens) + 1}
    return {"model": "gpt2", "tokens": [*tokens, *added, "[PAD]"], "types": types, "merges": merges, "keys": keys}


def spm(*, add_space_prefix: bool) -> dict[str, Any]:
    learned, _ = train(byte_level=False)
    learned = [token for token in learned if not {*token} & {*"éß你😀"}]  # whose characters fall back on bytes
    first = ["<unk>", "<|begin|>", "<|end|>", *(f"<0x{byte:02X}>" for byte in range(256)), "<|mark|>"]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, USER_DEFINED, *[NORMAL] * len(learned)]
    scores = [0.0] * len(first) + [-float(rank) for rank in range(len(learned))]
    keys = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "add_space_prefix": add_space_prefix}
    return {"model": "llama", "tokens": [*first, *learned], "types": types, "scores": scores, "keys": keys}


def ids_by_llama_cpp(path: Path) -> list[list[int]]:
    model = llama_cpp.Llama(model_path=str(path), vocab_only=True, verbose=False)
    return [model.tokenize(text.encode(), add_bos=True, special=True) for text in [*ODD_TEXTS, *CONTROL_TEXTS]]


def main() -> None:
    vocabularies = {"bpe": bpe(), "spm": spm(add_space_prefix=True), "spm_bare": spm(add_space_prefix=False)}
    ids: dict[str, dict[str, list[list[int]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, vocabulary in vocabularies.items():
            for pre in PRE_TOKENIZERS if name == "bpe" else ["default"]:
                path = write_vocabulary(Path(folder) / "vocabulary.gguf", vocabulary, pre)
                ids.setdefault(name, {})[pre] = ids_by_llama_cpp(path)
    text = json.dumps({"vocabularies": vocabularies, "ids": ids}, ensure_ascii=True, separators=(",", ":"))
    Path(__file__).with_name("llama_cpp_ids.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
