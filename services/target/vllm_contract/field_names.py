"""Field names: the contract's names of the fields in the generation service's errors."""

import re
from collections.abc import Mapping

from services.service.errors import InvalidRequestError, Violation

_NAMES: Mapping[str, str] = {
    "prompt": "input",
    "prompt.text": "text",
    "prompt.token_ids.ids": "tokenized.input_ids",
    "inputs[0].token_ids.ids": "tokenized.input_ids",
    "sampling": "sampling_params",
    "stop": "sampling_params",
    "stop.strings": "sampling_params.stop",
    "stop.token_ids": "sampling_params.stop_token_ids",
    "grammar": "sampling_params",
    "grammar.lark": "sampling_params.grammar",
    "grammar.choice.texts": "sampling_params.choice.choices",
    "num_samples": "sampling_params.n",
}
_MOST_BYTES = 1000  # of a message, which travels in a header
_BIAS = re.compile(r"(?<=^sampling_params\.logit_bias).*")  # a map has no order that an index could mean


class ContractRequestError(InvalidRequestError):
    """An error whose message lists the violations too, since routers forward only the message."""

    def __str__(self) -> str:
        text = "; ".join(f"{one.field} {one.description}" for one in self.violations)
        return text.encode()[:_MOST_BYTES].decode(errors="ignore")


def in_contract(error: InvalidRequestError) -> ContractRequestError:
    """The same violations under the contract's names."""
    return ContractRequestError([Violation(_name(one.field), one.description) for one in error.violations])


def _name(path: str) -> str:
    """A path with its longest known prefix replaced by the contract's name."""
    known = [name for name in _NAMES if path == name or path.startswith((f"{name}.", f"{name}["))]
    if not known:
        return path
    longest = max(known, key=len)
    return _BIAS.sub("", _NAMES[longest] + path[len(longest) :])
