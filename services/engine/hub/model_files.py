"""Which files of a repository make a model: those that are read here, no other format of the weights and no copy."""

from collections.abc import Collection, Mapping
from collections.abc import Sequence as Seq
from fnmatch import fnmatchcase

from services.engine.checkpoint.gguf.tensors import PART_NAME
from services.engine.checkpoint.tensor_files import INDEX, SINGLE
from services.engine.hub.hub_error import HubError, SeveralFilesError
from services.engine.hub.hub_name import HubName

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
_REQUIRED = (CONFIG, TOKENIZER)
_OPTIONAL = ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
_MOST_SHOWN = 40  # files, in an error


def is_gguf(name: HubName, files: Collection[str]) -> bool:
    """Whether a name stands for a GGUF file: it says so, or its repository has no other weights."""
    return name.file is not None or (not {SINGLE, INDEX} & {*files} and bool(gguf_files(files)))


def text_files(name: HubName, files: Collection[str]) -> list[str]:
    """What there is beside the weights; raises HubError where a file is missing that a model must have."""
    for file in (*_REQUIRED, SINGLE):
        if file not in files and not (file == SINGLE and INDEX in files):
            raise HubError(f"{name}: its repository has no {file}{f' or {INDEX}' if file == SINGLE else ''}")
    return [file for file in (*_REQUIRED, *_OPTIONAL) if file in files]


def gguf_parts(name: HubName, files: Collection[str]) -> Seq[str]:
    """The parts of the GGUF file that a name stands for, in their order.

    A file is named by its path, by the end of it, by what its parts have in common, or by a pattern with `*`. Raises
    HubError where that is no file, or several.
    """
    models = gguf_files(files)
    chosen = _choose(models, name.file)
    if len(chosen) != 1:
        found = "has several such files" if chosen else "has no such file"
        shown = [*(chosen or models)]
        listed = ", ".join(shown[:_MOST_SHOWN]) + (", …" if len(shown) > _MOST_SHOWN else "")
        error = SeveralFilesError if chosen else HubError
        raise error(f"{name}: its repository {found}; name one of its GGUF files, which are: {listed or 'none'}")
    (parts,) = chosen.values()
    if (match := PART_NAME.fullmatch(parts[0])) and len(parts) != (count := int(match["count"])):
        raise HubError(f"{name}: its repository has {len(parts)} of the parts of {parts[0]}; it must have {count}")
    return parts


def gguf_files(files: Collection[str]) -> Mapping[str, Seq[str]]:
    """The parts of each GGUF file; that of several parts has the name that it would have in one."""
    models: dict[str, list[str]] = {}
    for file in sorted(files):
        if file.lower().endswith(".gguf"):
            match = PART_NAME.fullmatch(file)
            models.setdefault(f"{match['whole']}.gguf" if match else file, []).append(file)
    return models


def _choose(models: Mapping[str, Seq[str]], wanted: str | None) -> Mapping[str, Seq[str]]:
    if wanted is None:
        return models
    exact = {whole: parts for whole, parts in models.items() if wanted in (whole, *parts)}
    return exact or {whole: parts for whole, parts in models.items() if _matches(wanted.lower(), whole.lower())}


def _matches(wanted: str, file: str) -> bool:
    return file.endswith(f"/{wanted}") or fnmatchcase(file, wanted)
