"""TemplateSource: the texts of a checkpoint's chat templates, and the file that they are read from."""

from dataclasses import dataclass
from pathlib import Path

from services.engine.files.json_fields import JsonFields, shown
from services.engine.files.model_file import MIB, read_model_text
from services.engine.gguf.metadata import Metadata

_MOST_BYTES = 1 * MIB
_DEFAULT, _FOR_TOOLS = "default", "tool_use"
_KEY = "tokenizer.chat_template"


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """The template, and the one named `tool_use` for conversations with tools, empty if there is none."""

    text: str
    where: str
    for_tools: str = ""

    @property
    def named(self) -> dict[str, str]:
        """The templates by their names."""
        return {_DEFAULT: self.text, **({_FOR_TOOLS: self.for_tools} if self.for_tools else {})}

    @classmethod
    def from_folder(cls, folder: Path, settings: JsonFields) -> "TemplateSource | None":
        """Read chat_template.jinja and those beside it, or else the templates in `settings`, which are those of
        tokenizer_config.json; None without any. Raises CheckpointError.
        """
        if not (path := folder / "chat_template.jinja").exists():
            return _in_settings(settings, str(folder / "tokenizer_config.json"))
        further = folder / "additional_chat_templates" / f"{_FOR_TOOLS}.jinja"
        for_tools = read_model_text(further, most_bytes=_MOST_BYTES) if further.exists() else ""
        return cls(read_model_text(path, most_bytes=_MOST_BYTES), str(path), for_tools)

    @classmethod
    def from_metadata(cls, metadata: Metadata, path: Path) -> "TemplateSource | None":
        """Read the templates of a GGUF file, None without any; raises CheckpointError."""
        if (text := _bounded(metadata, _KEY)) is None:
            return None
        return cls(text, f"{path}: key {_KEY!r}", _bounded(metadata, f"{_KEY}.{_FOR_TOOLS}") or "")


def _in_settings(settings: JsonFields, where: str) -> TemplateSource | None:
    match settings.raw("chat_template"):
        case None:
            return None
        case str(text):
            return TemplateSource(text, where)
        case list(entries):
            named = dict(pair for entry in entries if (pair := _named(entry)) is not None)
            return TemplateSource(named[_DEFAULT], where, named.get(_FOR_TOOLS, "")) if _DEFAULT in named else None
        case value:
            raise settings.error("chat_template", f"must be a template or a list of named ones, is {shown(value)}")


def _named(entry: object) -> tuple[str, str] | None:
    match entry:
        case {"name": str(name), "template": str(text)}:
            return name, text
    return None


def _bounded(metadata: Metadata, key: str) -> str | None:
    text = metadata.text(key)
    if text is not None and len(text) > _MOST_BYTES:
        raise metadata.error(key, f"has {len(text)} characters; it may have at most {_MOST_BYTES}")
    return text
