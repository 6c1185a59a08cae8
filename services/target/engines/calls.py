"""Calls: methods that one process of a service calls in another, their arguments, and their answers."""

import io
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from services.engine.text.tokenizer import Tokenizer


class Call(NamedTuple):
    """A method to be called there with these arguments, after an object that is there."""

    number: int  # of the answer that is waited for; 0 if none is
    method: Callable[..., Any]
    arguments: tuple[Any, ...]


class Answer(NamedTuple):
    """What a method has returned or raised."""

    number: int
    value: Any
    error: Exception | None = None


def pickle_call(call: Call) -> bytes:
    """Return a call as bytes; a tokenizer among the arguments is not sent: the other process has it too."""
    data = io.BytesIO()
    _CallPickler(data, pickle.HIGHEST_PROTOCOL).dump(tuple(call))
    return data.getvalue()


def unpickle_call(data: bytes, find_tokenizer: Callable[[], Tokenizer]) -> Call:
    """Return the call in these bytes, which must come from a process of this service."""
    return Call(*_CallUnpickler(io.BytesIO(data), find_tokenizer).load())


def pickle_answer(answer: Answer) -> bytes:
    """Return an answer as bytes; an error that cannot be sent is described."""
    try:
        return pickle.dumps(tuple(answer), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        described = RuntimeError(f"{answer.error or answer.value!r}, which cannot be sent: {error}")
        return pickle.dumps((answer.number, None, described), pickle.HIGHEST_PROTOCOL)


class _CallPickler(pickle.Pickler):
    def reducer_override(self, value: object) -> tuple[Callable[[], Tokenizer], tuple[()]]:
        return (_the_tokenizer, ()) if isinstance(value, Tokenizer) else NotImplemented


class _CallUnpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, find_tokenizer: Callable[[], Tokenizer]) -> None:
        super().__init__(data)
        self._find_tokenizer = find_tokenizer

    def find_class(self, module: str, name: str) -> object:
        is_tokenizer = (module, name) == (__name__, _the_tokenizer.__name__)
        return self._find_tokenizer if is_tokenizer else super().find_class(module, name)


def _the_tokenizer() -> NoReturn:
    """Stand for the tokenizer of the model where a call is unpickled."""
    raise TypeError("this must be unpickled by `unpickle_call`")
