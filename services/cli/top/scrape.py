"""Scrape: the values of a service's metrics at one moment."""

import time
import urllib.request
from dataclasses import dataclass
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

_TIMEOUT_SECONDS = 5.0
_MOST_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """One value, by its metric's name without a prefix."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Scrape:
    """All values, and when they were read, in seconds on the monotonic clock."""

    samples: list[Sample]
    moment: float

    @classmethod
    def of(cls, address: str) -> Self:
        """Read the metrics that a service serves at HOST:PORT; raises OSError and ValueError if that fails."""
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=_TIMEOUT_SECONDS) as answer:
            return cls.read(answer.read(_MOST_BYTES).decode())

    @classmethod
    def read(cls, page: str) -> Self:
        """Parse a page of metrics that was received now; raises ValueError if it is none."""
        samples = [
            Sample(sample.name.rpartition(":")[2], sample.labels, sample.value)
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        ]
        return cls(samples, time.monotonic())

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's values with these labels; 0 if there are none."""
        wanted = labels.items()
        return sum(each.value for each in self.samples if each.name == name and wanted <= each.labels.items())

    def by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        """Return the total for each value of one more label, in the order of the page."""
        values = dict.fromkeys(
            each.labels[label] for each in self.samples if each.name == name and label in each.labels
        )
        return {value: self.total(name, **{**labels, label: value}) for value in values}
