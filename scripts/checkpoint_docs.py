"""Write the tables of docs/operate/checkpoints.md from those of the code: `python -m scripts.checkpoint_docs`."""

import re
from collections.abc import Iterable
from pathlib import Path

from services.engine.checkpoint.architectures.table import ARCHITECTURES
from services.engine.checkpoint.architectures.text_part import TEXT_PARTS
from services.engine.checkpoint.gguf.architectures import DEEPSEEK_V3, GGUF_ARCHITECTURES, MISTRAL, MIXTRAL, OLMO3
from services.engine.checkpoint.quantised.methods import METHODS

PAGE = Path(__file__).parents[1] / "docs" / "operate" / "checkpoints.md"
_TABLE = re.compile(r"(<!-- (architectures|parts|methods) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Write the page."""
    PAGE.write_text(with_tables(PAGE.read_text()))


def with_tables(page: str) -> str:
    """Return the page with its tables as the code has them; each stands between two comments, the first its name."""
    tables = {"architectures": _architectures(), "parts": _parts(), "methods": _methods()}
    return _TABLE.sub(lambda found: "\n".join([found[1].rstrip(), *tables[found[2]], found[3]]), page)


def _architectures() -> list[str]:
    files = {name: [kind for kind, each in GGUF_ARCHITECTURES.items() if each.name == name] for name in ARCHITECTURES}
    files[MISTRAL.name] = files[MIXTRAL.name] = files["LlamaForCausalLM"]  # windows and experts say which it is
    files[OLMO3.name] = files["Olmo2ForCausalLM"]  # and so do they here
    files[DEEPSEEK_V3.name] = files["Glm4MoeLiteForCausalLM"] = files["DeepseekV2ForCausalLM"]  # and scores of experts
    rows = (
        (f"`{name}`", each.models, each.features, ", ".join(f"`{kind}`" for kind in files[name]))
        for name, each in ARCHITECTURES.items()
    )
    return _table(("`architectures`", "models", "what it has beside Llama's", "GGUF"), rows)


def _parts() -> list[str]:
    rows = ((f"`{name}`", part.models, " or ".join(part.classes.values())) for name, part in TEXT_PARTS.items())
    return _table(("`architectures`", "models", "served as"), rows)


def _methods() -> list[str]:
    names: dict[str, list[str]] = {}
    for name, method in METHODS.items():
        names.setdefault(method.__name__, []).append(f"`{name}`")
    methods = {method.__name__: method for method in METHODS.values()}
    rows = ((", ".join(names[key]), method.reads, method.held) for key, method in methods.items())
    return _table(("`quant_method`", "what is read", "held on a CPU"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


if __name__ == "__main__":
    main()
