"""Speculation policy: reads a request's options for speculative decoding."""

from outrider.v1 import common_pb2
from services.engine.range import Range
from services.engine.request import SpeculationMode, SpeculationPolicy
from services.service.limits import LIMITS
from services.service.validation import Violations

_MODES = {
    common_pb2.SPECULATION_MODE_UNSPECIFIED: SpeculationMode.AUTO,
    common_pb2.SPECULATION_MODE_NEVER: SpeculationMode.NEVER,
    common_pb2.SPECULATION_MODE_AUTO: SpeculationMode.AUTO,
    common_pb2.SPECULATION_MODE_ALWAYS: SpeculationMode.ALWAYS,
}


def read_speculation(message: common_pb2.SpeculationPolicy, found: Violations) -> SpeculationPolicy:
    """The speculation policy of a request; errors are added to `found`."""
    mode = _MODES.get(message.mode)
    if mode is None:
        found.add("speculation.mode", f"is {message.mode}", ", ".join(common_pb2.SpeculationMode.keys()))
    if message.lookup and mode is SpeculationMode.NEVER:
        found.add("speculation.lookup", "is true", "false, or not set, with SPECULATION_MODE_NEVER")
    return SpeculationPolicy(
        mode=mode or SpeculationMode.AUTO,
        num_predictions=_read_num_predictions(message, mode, found),
        lookup=message.lookup or not message.HasField("lookup"),
    )


def _read_num_predictions(
    message: common_pb2.SpeculationPolicy, mode: SpeculationMode | None, found: Violations
) -> int | None:
    if not message.HasField("num_predictions"):
        return None
    allowed = Range(minimum=1, maximum=LIMITS.max_predictions)
    found.check_number("speculation.num_predictions", message.num_predictions, allowed)
    if mode is not SpeculationMode.ALWAYS:
        found.add("speculation.num_predictions", "is set", "only with SPECULATION_MODE_ALWAYS")
    return message.num_predictions
