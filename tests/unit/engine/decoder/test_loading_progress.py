"""LoadingProgress: reported on request, and logged seldom enough to be read."""

import time
from concurrent.futures import CancelledError

import pytest

from services.engine.decoder.loading_progress import LoadingProgress


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock says, for a test to set."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_progress_is_written_as_a_percentage() -> None:
    progress = LoadingProgress()
    assert str(progress) == "0% of the weights are loaded"
    progress.advance(0.426)
    assert str(progress) == "43% of the weights are loaded"


def test_a_cancellation_ends_the_loading() -> None:
    progress = LoadingProgress()
    progress.cancel()
    with pytest.raises(CancelledError):
        progress.advance(0.5)


def test_a_tenth_is_logged_and_at_most_one_line_a_second(seconds, caplog) -> None:
    caplog.set_level("INFO")
    progress = LoadingProgress()
    for step in range(1, 101):  # a hundredth each tenth of a second
        seconds[0] = step / 10
        progress.advance(step / 100)
    assert [message.split("%")[0] for message in caplog.messages] == [str(10 * tenth) for tenth in range(1, 11)]
    caplog.clear()
    quick = LoadingProgress()
    for step in range(1, 101):  # all of it in half a second
        seconds[0] += 0.005
        quick.advance(step / 100)
    assert caplog.messages == []
