"""LoraOption: the value of --lora: an adapter's name, its folder, and the model that it is for."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import NamedTuple

from services.engine.config import ConfigError
from services.service.named_option import NamedOption, is_name


class LoraOption(NamedTuple):
    """`[MODEL:]NAME=DIR`; without a model's name it is for the first one."""

    model: str
    name: str
    folder: Path

    @classmethod
    def parse(cls, text: str) -> "LoraOption":
        """Parse an option's value; the name is empty if there is none."""
        model, colon, rest = text.partition(":")
        if not colon or not is_name(model):
            model, rest = "", text
        name, folder = NamedOption.parse(rest)
        return cls(model, name, Path(folder))


def loras_by_model(options: Seq[LoraOption], models: Seq[str]) -> Mapping[str, dict[str, Path]]:
    """The folders of each model's adapters, by their names; raises ConfigError for names that do not fit together."""
    loras: dict[str, dict[str, Path]] = {model: {} for model in models}
    for option in options:
        if not option.name:
            raise ConfigError(
                f"lora is {str(option.folder)!r}; it must be [MODEL:]NAME=DIR, in NAME letters, digits, . _ -"
            )
        if (model := option.model or models[0]) not in loras:
            raise ConfigError(f"lora {option.name!r} is for {model!r}; it must be for one of {', '.join(models)}")
        if any(option.name in each for each in loras.values()):
            raise ConfigError(f"lora is {option.name!r} more than once; each must have a name of its own")
        loras[model][option.name] = option.folder
    return loras
