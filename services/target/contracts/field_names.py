"""Field names: a contract's names of the fields in the generation service's errors."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from services.service.errors import InvalidRequestError, NotFoundError, Violation
from services.service.validation import Violations

_MOST_BYTES = 1000  # of a message, which travels in a header


class ContractRequestError(InvalidRequestError):
    """An error whose message lists the violations too, since routers forward only the message."""

    def __str__(self) -> str:
        text = "; ".join(f"{one.field} {one.description}" for one in self.violations)
        return text.encode()[:_MOST_BYTES].decode(errors="ignore")


def not_found(error: InvalidRequestError) -> NotFoundError:
    """The error for a model that is not served, in the same words."""
    return NotFoundError(str(ContractRequestError(error.violations)))


def in_contract(
    error: InvalidRequestError, names: Mapping[str, str], without_places: Collection[str] = ()
) -> ContractRequestError:
    """The same violations under the contract's names, unless they have these already.

    Fields in `without_places` are those whose entries have another place, or none, in the contract.
    """
    if isinstance(error, ContractRequestError):
        return error
    return ContractRequestError(
        [Violation(_name(one.field, names, without_places), one.description) for one in error.violations]
    )


def check_fields(message: Message, path: str, known: Collection[str], found: Violations) -> None:
    """Add fields that are set and that this server does not support to `found`, including unknown ones."""
    for field, _ in message.ListFields():
        if field.name not in known:
            found.add(f"{path}{field.name}", "is set", "not to be: this server has nothing like it")
    for number in sorted({field.field_number for field in cast(Iterable[Any], UnknownFieldSet(message))}):
        found.add(f"{path}{number}", "is set", "fields of the contract that this server knows")


def _name(path: str, names: Mapping[str, str], without_places: Collection[str]) -> str:
    """A path with its longest known prefix replaced by the contract's name."""
    known = [name for name in names if path == name or path.startswith((f"{name}.", f"{name}["))]
    if known:
        longest = max(known, key=len)
        path = names[longest] + path[len(longest) :]
    return next((name for name in without_places if path.startswith(f"{name}[")), path)
