"""RandomMessages: messages of any type, made from its descriptor alone, with values at the edge of what is allowed."""

import math
import random
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

_MOST_DEPTH, _MOST_REPEATED = 5, 4
_SHARE_OF_FIELDS, _SHARE_OF_LONG_LISTS = 0.3, 0.01
_LONG = 3000
_UNSIGNED = (0, 1, 2, 7, 15, 16, 63, 64, 255, 256, 511, 512, 2047, 2048, 8192, 2**31 - 1, 2**31, 2**32 - 1)
_FLOATS = (0.0, -0.0, 1.0, 0.5, 1e-9, -1.0, 2.0, 1e38, 1e39, 5e-324, math.inf, -math.inf, math.nan)
_TEXTS = (
    "",
    "a",
    "user",
    "assistant",
    "def f(",
    "\0",
    "\n" * 50,
    "é" * 20,
    "\U0001f600",
    "{}",
    "[a-z]+",
    "(",
    "{{",
    '{"type": "object"}',
)


class RandomMessages:
    """Every draw comes from the generator that it is given."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._scalars: dict[int, Callable[[], Any]] = {
            FieldDescriptor.CPPTYPE_BOOL: lambda: rng.random() < 0.5,
            FieldDescriptor.CPPTYPE_STRING: self._text,
            FieldDescriptor.CPPTYPE_FLOAT: self._float,
            FieldDescriptor.CPPTYPE_DOUBLE: self._float,
            FieldDescriptor.CPPTYPE_UINT32: self._unsigned,
            FieldDescriptor.CPPTYPE_UINT64: lambda: rng.choice((self._unsigned(), rng.getrandbits(64))),
            FieldDescriptor.CPPTYPE_INT32: lambda: rng.choice((-1, 0, 1, -(2**31), 2**31 - 1)),
            FieldDescriptor.CPPTYPE_INT64: lambda: rng.choice((-1, 0, 1, -(2**63), 2**63 - 1)),
        }

    def fill(self, message: Message, *, share: float = _SHARE_OF_FIELDS, depth: int = 0) -> None:
        """Set about such a share of a message's fields, each at random; what it has else stays."""
        for field in message.DESCRIPTOR.fields:
            if self._rng.random() < share and (depth < _MOST_DEPTH or field.message_type is None):
                self._set(message, field, depth)

    def _set(self, message: Message, field: Any, depth: int) -> None:
        if field.is_repeated:
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                self._put(getattr(message, field.name), *field.message_type.fields)
            else:
                self._extend(getattr(message, field.name), field, depth)
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            self.fill(getattr(message, field.name), depth=depth + 1)
        else:
            setattr(message, field.name, self._scalar(field))

    def _extend(self, values: Any, field: Any, depth: int) -> None:
        is_long = self._rng.random() < _SHARE_OF_LONG_LISTS
        for _ in range(_LONG if is_long and field.message_type is None else self._rng.randrange(_MOST_REPEATED)):
            if field.message_type is not None:
                self.fill(values.add(), depth=depth + 1)
            else:
                values.append(self._scalar(field))

    def _put(self, values: Any, key: Any, value: Any) -> None:
        """Into a map, in which a message comes about when it is asked for."""
        for _ in range(self._rng.randrange(_MOST_REPEATED)):
            name = self._scalar(key)
            if value.message_type is not None:
                values[name].SetInParent()
            else:
                values[name] = self._scalar(value)

    def _scalar(self, field: Any) -> Any:
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            numbers = [value.number for value in field.enum_type.values]
            return self._rng.choice((*numbers, max(numbers) + 1, 2**31 - 1))
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._rng.randbytes(self._rng.choice((0, 1, 8, 64, 300)))
        return self._scalars[field.cpp_type]()

    def _unsigned(self) -> int:
        return self._rng.choice(_UNSIGNED) if self._rng.random() < 0.7 else self._rng.randrange(600)

    def _float(self) -> float:
        return self._rng.choice(_FLOATS) if self._rng.random() < 0.6 else self._rng.uniform(-2.0, 2.0)

    def _text(self) -> str:
        text = self._rng.choice(_TEXTS)
        return text * _LONG if self._rng.random() < _SHARE_OF_LONG_LISTS else text


def type_of(descriptor: Descriptor) -> type[Message]:
    """The class of a descriptor's messages."""
    from google.protobuf.message_factory import GetMessageClass

    found: type[Message] = GetMessageClass(descriptor)
    return found
