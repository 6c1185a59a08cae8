"""POST /demo/draft: a draft that was removed comes back, whatever became of the target in between."""

from concurrent.futures import ThreadPoolExecutor

from outrider.v1 import admin_pb2
from tests.e2e.harness.models import DEMO_TARGET
from tests.gateway.harness.running_gateway import RunningGateway
from tests.rpc.harness.administered import administered_target

DRAFT = "127.0.0.1:1"  # an address without a server


def told(gateway: RunningGateway, *, present: bool | None) -> tuple[int, int]:
    """How many drafts are absent, and how many are taken."""
    answer = gateway.post("/demo/draft", {"present": present}).json()
    return answer["absent"], answer["taken"]


def test_a_draft_that_is_taken_is_given_back():
    with administered_target(DEMO_TARGET) as (target, admin):
        admin.AddDraft(admin_pb2.AddDraftRequest(address=DRAFT))
        with RunningGateway(target.address, demo_controls=target.server.admin.address) as gateway:
            assert told(gateway, present=False) == (0, 1)
            admin.AddDraft(admin_pb2.AddDraftRequest(address=DRAFT))  # as a target that is started again has it
            assert told(gateway, present=None) == (1, 0)
            with ThreadPoolExecutor() as pool:
                assert [*pool.map(lambda _: told(gateway, present=False), range(4))] == [(0, 1)] * 4
            assert told(gateway, present=True) == (1, 0)
            assert told(gateway, present=False) == (0, 1)
        drafts = admin.GetStatistics(admin_pb2.GetStatisticsRequest()).drafts
    assert [draft.address for draft in drafts] == [DRAFT]
