"""Write the table of docs/operate/devices.md from the code: `python -m scripts.device_docs`."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from services.engine.config import CPU_KV_FORMATS, CPU_OPTIONS, CPU_WEIGHT_FORMATS, KV_FORMATS, WEIGHT_FORMATS
from services.engine.decoder.weight_choice import STORED, choose_stored

PAGE = Path(__file__).parents[1] / "docs" / "operate" / "devices.md"
_TABLE = re.compile(r"(<!-- devices -->\n).*?(<!-- end -->)", re.DOTALL)
_Row = tuple[str, str, str, str]
_ON_BOTH = {
    "mixtures of experts": "",
    "short convolutions (LFM2)": "",
    "layers that carry states (Qwen 3.5, Qwen3-Next)": "",
    "attention to latent vectors (GLM 4.7 Flash, DeepSeek)": "",
    "LoRA adapters": "--lora",
    "embeddings (the final hidden states)": "",
    "every sampler, grammar and record of a target": "",
    "a draft's shortlist of tokens": "--head-shortlist",
    "evicted blocks of the KV cache kept elsewhere": "--kv-offload-memory",
    "target and draft on the same device": "--device",
    "heads, and a model's own layer for multi-token prediction": "--head",
    "several models in one server": "--model",
}
"""What every device does, and its option, if there is one."""


def main() -> None:
    """Write the page."""
    PAGE.write_text(with_table(PAGE.read_text()))


def with_table(page: str) -> str:
    """Return the page with the table as the code has it."""
    head = ("what", "option", "CPU", "CUDA")
    lines = [_line(head), "|---" * len(head) + "|", *map(_line, rows())]
    return _TABLE.sub(lambda found: "\n".join([found[1].rstrip(), *lines, found[2]]), page)


def rows() -> Iterator[_Row]:
    """Yield each thing, its option, and whether a CPU and a CUDA device do it."""
    yield from _formats("weights", "--weights", WEIGHT_FORMATS, CPU_WEIGHT_FORMATS)
    yield ("weights in groups, as GGUF, GPTQ and AWQ files hold them", "`--weights stored`", *_grouped())
    yield from _formats("keys and values", "--kv", KV_FORMATS, CPU_KV_FORMATS)
    for what, option in _ON_BOTH.items():
        yield what, f"`{option}`" if option else "", "yes", "yes"
    for option, what in CPU_OPTIONS.items():
        yield what, f"`--{option.replace('_', '-')}`", "yes", "no"
    yield "one model on several devices", "`--device cuda:0,cuda:1`", "no", "yes"


def _formats(what: str, option: str, all_formats: Collection[str], on_cpu: Collection[str]) -> Iterator[_Row]:
    for name in all_formats:
        yield f"{what} in {name}", f"`{option} {name}`", "yes" if name in on_cpu else "no", "yes"


def _grouped() -> tuple[str, str]:
    held = [choose_stored(is_grouped=True, on_cpu=on_cpu).weights for on_cpu in (True, False)]
    cpu, cuda = ("yes" if each == STORED else f"no, they become {each}" for each in held)
    return cpu, cuda


def _line(row: Collection[str]) -> str:
    return f"| {' | '.join(row)} |"


if __name__ == "__main__":
    main()
