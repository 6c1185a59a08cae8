"""ComputeResources: two services are in each other's way on the same cores or the same GPU of one machine."""

import pytest

from services.engine.decoder.compute_resources import ComputeResources

HERE = ComputeResources("machine", "cpu", frozenset({0, 1}), 2)


def test_a_service_competes_with_this_process_for_its_cores():
    here = ComputeResources.here(device="cpu", threads=2**16)
    assert here.cores
    assert here.competes_with(here)


@pytest.mark.parametrize(
    ("other", "competes"),
    [
        (HERE, True),
        (ComputeResources("machine", "cpu", frozenset({1, 2}), 2), True),
        (ComputeResources("machine", "cpu", frozenset({2, 3}), 2), False),
        (ComputeResources("machine", "cpu", frozenset(range(8)), 6), False),
        (ComputeResources("machine", "cpu", frozenset(range(8)), 7), True),
        (ComputeResources("another", "cpu", frozenset({0, 1}), 2), False),
        (ComputeResources("", "cpu", frozenset({0, 1}), 2), False),
        (ComputeResources("machine", "cuda:0", frozenset({0, 1}), 2), False),
    ],
)
def test_cores_are_shared_where_there_are_fewer_than_threads(other, competes):
    assert HERE.competes_with(other) == other.competes_with(HERE) == competes


def test_services_on_one_gpu_compete_whatever_their_cores():
    target, draft = (ComputeResources("machine", "cuda:0", frozenset({core}), 1) for core in (0, 1))
    assert target.competes_with(draft)
    assert not target.competes_with(ComputeResources("machine", "cuda:1", frozenset({0}), 1))


def test_a_model_on_several_gpus_competes_for_each_of_them():
    target, *drafts = (
        ComputeResources("machine", each, frozenset({0}), 1) for each in ("cuda:0,cuda:1", "cuda:1", "cuda:2")
    )
    assert [target.competes_with(draft) for draft in drafts] == [True, False]
    assert [draft.competes_with(target) for draft in drafts] == [True, False]
