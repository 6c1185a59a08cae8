"""Large numbers as people read them."""

import pytest

from services.cli.quantity import byte_size, large_count


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_600, "1 MB"), (1_117_320_768, "1.12 GB"), (4e15, "4e+03 TB")],
)
def test_a_number_of_bytes(size: float, shown: str):
    assert byte_size(size) == shown


@pytest.mark.parametrize(("number", "shown"), [(512, "512"), (494_032_768, "494 million"), (1.5437e9, "1.54 billion")])
def test_a_number_of_things(number: float, shown: str):
    assert large_count(number) == shown
