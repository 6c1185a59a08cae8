"""Trace contexts from outside: those that W3C allows, and nothing else."""

import pytest

from services.telemetry.trace_context import read_traceparent, trace_id

GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_valid_trace_context_is_kept():
    assert read_traceparent(GOOD) == GOOD
    assert trace_id(GOOD) == "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD[:-1],
        f"{GOOD}-",
        f"{GOOD}\n",
        GOOD.upper(),
        GOOD.replace("00-", "ff-", 1),
        GOOD.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        GOOD.replace("b7ad6b7169203331", "0" * 16),
        GOOD.replace("a", "٣"),
        GOOD * 1000,
        GOOD.encode(),
        None,
    ],
)
def test_other_trace_contexts_are_dropped(text: object):
    assert read_traceparent(text) == ""
    assert trace_id(read_traceparent(text)) == ""
