"""StreamKey: one stream of the matrix; what it asks for, under which setting, and from which prompt."""

import functools
import random
from dataclasses import astuple, dataclass, replace
from typing import Any

from services.engine.decoder.native import derive_seed
from services.engine.text.tokenizer import Tokenizer
from tests.e2e.harness.models import folder
from tests.e2e.matrix.cells import ALL_MODELS, PUBLISHED, SETTINGS, Cell, Setup
from tests.e2e.matrix.grammars import grammar_of

NUM_PROMPTS = 9
NEW_TOKENS = 128
NUM_CANDIDATES = 4
NUM_SAMPLES = 3
INTRUDER = "intruder"
_PROMPT_LENGTHS = (5, 9, 16, 17, 33, 48, 64, 90, 65)
_INTRUDER_PROMPT, _INTRUDER_TOKENS = 150, 100
_STOP_CHARACTERS, _BANNED_CHARACTERS = 3, 5
_VOCABULARY = range(4, 500)  # of the random checkpoints, less control tokens and padding

_SAMPLERS = ["top_k", "xtc", "typical", "temperature", "min_p", "skew", "mirostat"]
_SAMPLING: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "nucleus": {"temperature": 0.7, "top_p": 0.9},
    "truncated": {
        **{"temperature": 1.0, "dynatemp_range": 0.3, "top_k": 40, "min_p": 0.02, "typical_p": 0.97, "skew": 0.1},
        **{"xtc_probability": 0.3, "xtc_threshold": 0.2, "samplers": _SAMPLERS},
        **{"mirostat_mode": 2, "mirostat_tau": 2.0, "mirostat_eta": 0.3},
        **{
            "repetition_penalty": 1.15,
            "penalty_last_n": 20,
            "penalty_decay": 30,
            "no_repeat_ngram_size": 6,
            "bad_words_ids": [[20], [45, 46]],
        },
        **{
            "dry_multiplier": 0.5,
            "dry_allowed_length": 3,
            "suppress_token_ids": [46],
            "begin_suppress_token_ids": [300],
        },
    },
    "penalised": {
        "temperature": 1.3,
        "frequency_penalty": 0.6,
        "presence_penalty": 0.4,
        "logit_bias": {20: 2.0, 45: -3.0, 46: float("-inf"), 300: 1.5},
    },
}
_SAMPLING["grammar"] = {"temperature": 0.9}
_SEEDS = {"truncated": 2000, "penalised": 3000}  # 1000 for what draws as "nucleus" does, and cuts it
_SAMPLING["stopped"] = _SAMPLING["nucleus"]  # with a stop string out of what "nucleus" says
_SAMPLING["banned"] = _SAMPLING["nucleus"]  # with a part of what "nucleus" says banned
_SAMPLING["samples"] = {**_SAMPLING["nucleus"], "num_samples": NUM_SAMPLES}  # the first is the answer of "nucleus"
_SAMPLING["healed"] = {"temperature": 1.0, "top_p": 0.95, "heal": True}
_TOLD = {"penalised": {"rank": True, "entropy": True, "logits": True, "prompt_logprobs": True}}  # all there is

_SOURCE = '''"""Shapes of the plane."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Circle:
    """All points at one distance from a centre."""

    x: float
    y: float
    radius: float

    def area(self):
        """Return the area."""
        return math.pi * self.radius ** 2

    def contains(self, x, y):
        """Return whether a point lies inside."""
        return math.hypot(x - self.x, y - self.y) <= self.radius


def read_shapes(path, encoding="utf-8"):
    """Read one shape per line from a file, and skip empty lines and comments."""
    shapes = []
    with open(path, encoding=encoding) as file:
        for number, line in enumerate(file, start=1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            try:
                shapes.append(Circle(*map(float, line.split(","))))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
    return shapes
'''


@dataclass(frozen=True, slots=True, order=True)
class StreamKey:
    """Names one stream: the same key always asks for the same bytes. In order, those of one server are together."""

    model: str
    isa: str
    weights: str
    kv: str
    setting: str
    prompt: int

    @classmethod
    def under(cls, setup: Setup, setting: str, prompt: int) -> "StreamKey":
        """A stream as all servers give it whose setups differ in nothing that bytes depend on."""
        return cls(setup.model, setup.isa, setup.weights, setup.kv, setting, prompt)

    @property
    def name(self) -> str:
        """For file names and request ids."""
        return "-".join(map(str, astuple(self)))

    @property
    def free(self) -> "StreamKey":
        """The stream that draws in the same way, but is not ended by a stop string, and may say what is banned."""
        return replace(self, setting="nucleus")

    @property
    def seed(self) -> int:
        """That of the first sample."""
        return _SEEDS.get(self.setting, 1000) + self.prompt

    @property
    def further_seeds(self) -> list[int]:
        """Those of the other samples."""
        return [derive_seed(self.seed, index) for index in range(1, _SAMPLING[self.setting].get("num_samples", 1))]

    def prompt_ids(self) -> list[int]:
        """The prompt as token ids; one to be healed ends in a space."""
        prompt = prompt_of(self.model, self.prompt)
        return [*prompt[:-1], space_of(self.model)] if self.setting == "healed" else prompt

    def options(self) -> dict[str, Any]:
        """The client's options, less the stop string or the banned one, and what concerns predictions."""
        return {
            **_SAMPLING[self.setting],
            **_TOLD.get(self.setting, {}),
            **({"logit_bias": {space_of(self.model): -100.0}} if self.setting == "healed" else {}),  # not as it was
            "seed": self.seed,
            "max_tokens": NEW_TOKENS,
            "ignore_eos": True,
            "top_candidates": NUM_CANDIDATES,
            **(grammar_of(ALL_MODELS.index(self.model) + self.prompt) if self.setting == "grammar" else {}),
        }


def streams_of(cell: Cell) -> list[StreamKey]:
    """The nine streams of a cell."""
    first = SETTINGS.index(cell.setting)
    step = cell.company == "others"
    settings = [SETTINGS[(first + step * prompt) % len(SETTINGS)] for prompt in range(NUM_PROMPTS)]
    return [StreamKey.under(cell.setup, setting, prompt) for prompt, setting in enumerate(settings)]


@functools.cache
def tokenizer_of(model: str) -> Tokenizer:
    """What a model reads and writes with."""
    return Tokenizer.from_model(folder(model))


def space_of(model: str) -> int:
    """The token of a single space, with which many others begin."""
    (token_id,) = tokenizer_of(model).encode(" ", add_special_tokens=False)
    return token_id


def structure_of(model: str) -> list[int]:
    """The tokens that lists, objects, numbers and names are made of, one by one."""
    tokenizer = tokenizer_of(model)
    return sorted({token_id for character in ', ]}[{:"\n01239abx' for token_id in tokenizer.encode(character)[-1:]})


def prompt_of(model: str, index: int) -> list[int]:
    """The ids of one prompt; -1 is the intruder's."""
    length = _INTRUDER_PROMPT if index < 0 else _PROMPT_LENGTHS[index]
    if model in {"demo", *PUBLISHED} and index >= 0:
        return source_prompt(11 * index, length, model=model)
    return random_prompt(f"{model} {index}", length)


def source_prompt(start: int, length: int, *, model: str = "demo") -> list[int]:
    """Ids of a piece of source code, as models know it that have read such."""
    return _source_ids(model)[start : start + length]


def random_prompt(name: str, length: int) -> list[int]:
    """Ids that any of the models knows, the same ones for the same name."""
    return random.Random(name).choices(_VOCABULARY, k=length)


def intruder_options() -> dict[str, Any]:
    """What the older stream asks for that takes the blocks of one that is otherwise alone.

    With its records each token is so long that the server is never far ahead of its reader.
    """
    return {"temperature": 0.0, "max_tokens": _INTRUDER_TOKENS, "ignore_eos": True, "top_candidates": 20}


class UselessReferenceError(Exception):
    """Raised for a stream that would show nothing: it ends too early, repeats itself, or can't be cut."""


def stop_string(text: str) -> str:
    """A few characters that occur in a text for the first time just after its middle, none a replacement character."""
    starts = sorted(range(len(text) - _STOP_CHARACTERS), key=lambda start: abs(start - len(text) * 3 // 5))
    for start in starts:
        candidate = text[start : start + _STOP_CHARACTERS]
        if "\ufffd" not in candidate and text.index(candidate) == start:
            return candidate
    raise UselessReferenceError(f"no stop string can be cut out of {text!r}")


def banned_string(text: str) -> str:
    """The few characters that a text has most often, of these those that it has first, in another case."""
    folded = text.casefold()
    candidates = [folded[start : start + _BANNED_CHARACTERS] for start in range(len(folded) - _BANNED_CHARACTERS)]
    whole = [candidate for candidate in candidates if "\ufffd" not in candidate]
    if not whole:
        raise UselessReferenceError(f"no banned string can be cut out of {text!r}")
    return max(whole, key=folded.count).upper()


@functools.cache
def _source_ids(model: str) -> list[int]:
    return tokenizer_of(model).encode(_SOURCE)
