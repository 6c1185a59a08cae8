"""Time limits: a value that is no duration, or out of range, is refused by its name."""

import pytest
from google.protobuf.duration_pb2 import Duration

from services.engine.range import Range
from services.service.errors import InvalidRequestError
from services.service.validation import Violations
from services.target.api.stops import read_duration

DAY = Range(minimum=0, maximum=86400, excludes_minimum=True)
WHOLE_NANOS = "allowed: 0 to 999999999"


@pytest.mark.parametrize(("seconds", "nanos"), [(0, 1), (1, 0), (2, 999_999_999), (86400, 0)])
def test_durations_in_range_are_read(seconds, nanos):
    found = Violations()
    assert read_duration("limit", Duration(seconds=seconds, nanos=nanos), DAY, found) == seconds + nanos * 1e-9
    found.raise_if_any()


@pytest.mark.parametrize(
    ("seconds", "nanos", "field", "problem"),
    [
        (0, 0, "limit", "is 0; allowed: above 0, at most 86400"),
        (0, -1, "limit", "is -1e-09; allowed: above 0, at most 86400"),
        (86401, 0, "limit", "is 86401; allowed: above 0, at most 86400"),
        (300_000_000_000, 0, "limit", "is 3e+11; allowed: above 0, at most 86400"),
        (0, 1_000_000_000, "limit.nanos", f"is 1000000000; {WHOLE_NANOS}"),
        (0, 2**31 - 1, "limit.nanos", f"is 2147483647; {WHOLE_NANOS}"),
        (2, -1, "limit.nanos", f"is -1; {WHOLE_NANOS}"),
        (-1, 2_000_000_000, "limit.nanos", f"is 2000000000; {WHOLE_NANOS}"),
    ],
)
def test_bad_durations_are_refused_by_field(seconds, nanos, field, problem):
    found = Violations()
    read_duration("limit", Duration(seconds=seconds, nanos=nanos), DAY, found)
    with pytest.raises(InvalidRequestError) as refusal:
        found.raise_if_any()
    assert [(each.field, each.description) for each in refusal.value.violations] == [(field, problem)]
