"""CoreAssignment: the cores of a target and its draft, and the line of the log about them."""

import os

import pytest

from services.cli.service_pair import PLACEMENTS, CoreAssignment


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> set[int]:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: request.param)
    return request.param


@pytest.mark.parametrize("cores", [{0, 1}, {3}, {0, 1, 2, 8}], indirect=True)
def test_shared_cores_are_all_cores(cores: set[int]) -> None:
    assignment = PLACEMENTS["shared"]()
    assert [*assignment.target] == [*assignment.draft] == sorted(cores)


@pytest.mark.parametrize(
    ("cores", "target", "draft"), [({0, 1}, [0], [1]), ({3}, [3], [3]), ({0, 1, 2}, [0], [1, 2])], indirect=["cores"]
)
def test_apart_each_has_half(cores: set[int], target: list[int], draft: list[int]) -> None:
    assert PLACEMENTS["apart"]() == CoreAssignment(target, draft)


def test_the_placement_is_described() -> None:
    shared = CoreAssignment([0, 1, 2, 8], [0, 1, 2, 8])
    assert shared.describe() == "target and draft take turns on cores 0-2,8, since one memory limits both"
    apart = CoreAssignment([0], [1, 2])
    assert apart.describe() == "target on cores 0, draft on cores 1-2, as asked for with --cores"
