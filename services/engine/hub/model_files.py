"""Which files of a repository a model needs: only those that are read here, not other formats of the weights."""

from collections.abc import Collection, Mapping
from collections.abc import Sequence as Seq
from fnmatch import fnmatchcase

from services.engine.checkpoint.attached.block_fields import MASK_EMBEDDING, MASK_PROBLEM
from services.engine.checkpoint.gguf.tensors import PART_NAME
from services.engine.checkpoint.tensor_files import INDEX, PICKLE, SINGLE, pickle_problem
from services.engine.hub.hub_error import HubError, SeveralFilesError
from services.engine.hub.hub_name import HubName

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
_REQUIRED = (CONFIG, TOKENIZER)
_OF_DRAFTER = (CONFIG,)  # attached to a model, whose tokenizer it has
_OPTIONAL = (
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "additional_chat_templates/tool_use.jinja",
)
_MOST_SHOWN = 40  # files, in an error


def is_gguf(name: HubName, files: Collection[str]) -> bool:
    """Return whether a name means a GGUF file: it names one, or its repository has no other weights."""
    return name.file is not None or (not {SINGLE, INDEX} & {*files} and bool(gguf_files(files)))


def text_files(name: HubName, files: Collection[str], *, is_drafter: bool) -> list[str]:
    """Return the files beside the weights; raises HubError if a required file is missing, or one cannot be used."""
    if not {SINGLE, INDEX} & {*files} and PICKLE in files:
        revision = f" --revision {name.revision}" if name.revision else ""
        first = f"name a folder instead, after: hf download {name.repository}{revision} --local-dir FOLDER"
        raise HubError(f"{name}: {first}; it {pickle_problem('FOLDER')}")
    if is_drafter and MASK_EMBEDDING in files:
        raise HubError(f"{name}: its repository has {MASK_EMBEDDING}: {MASK_PROBLEM}")
    for file in (*(_OF_DRAFTER if is_drafter else _REQUIRED), SINGLE):
        if file not in files and not (file == SINGLE and INDEX in files):
            raise HubError(f"{name}: its repository has no {file}{f' or {INDEX}' if file == SINGLE else ''}")
    return [file for file in (*_REQUIRED, *_OPTIONAL) if file in files]


def gguf_parts(name: HubName, files: Collection[str]) -> Seq[str]:
    """Return the parts of the GGUF file that a name means, in order.

    A file is named by its path, by the end of its path, by the common name of its parts, or by a pattern with `*`.
    Raises HubError if that matches no file or several.
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
    """Return the parts of each GGUF file, by the name that the file would have if it were not split."""
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
