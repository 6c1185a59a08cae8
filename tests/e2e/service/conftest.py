"""The pair that these tests look at; it sends its figures every second, and so ends with them."""

from collections.abc import Iterator

import pytest

from tests.e2e.harness.told_pair import ToldPair, told_pair


@pytest.fixture(scope="package")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToldPair]:
    """A target and its draft with all metrics, traces and logs, which are sent after a second at most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        patch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
        with told_pair(tmp_path_factory.mktemp("told")) as pair:
            yield pair
