"""Samples: whatever breaks, every sample continues with its own bytes, and none is lost."""

from collections.abc import Iterator
from itertools import chain, zip_longest

import grpc
import pytest

import outrider
from tests.harness.further import all_with
from tests.harness.servers.client_drivers import PROMPT, Collect, collect_sync, with_both_clients
from tests.harness.servers.scripted_server import (
    DRAWN_SEED,
    Event,
    Fault,
    Request,
    ScriptedServer,
    ScriptedServicer,
    answer,
    text_of,
)

NUM_SAMPLES = 3
ANSWERS = [answer(list(PROMPT.encode()), DRAWN_SEED + index) for index in range(NUM_SAMPLES)]


class SamplesServicer(ScriptedServicer):
    """Gives several samples in turn; a fault comes after so many of all their events."""

    def StreamGenerate(self, request: Request, context: grpc.ServicerContext) -> Iterator[Event]:  # noqa: N802
        if request.num_samples <= 1:
            yield from super().StreamGenerate(request, context)
            return
        self.requests.append(request)
        fault = self._next_fault()
        if fault and fault.at == "arrival":
            self._strike(fault, context)
            return
        for count, event in enumerate(self._interleaved(request, context)):
            if fault and fault.at == count:
                self._strike(fault, context)
                return
            yield event

    def _interleaved(self, request: Request, context: grpc.ServicerContext) -> Iterator[Event]:
        streams = []
        for index in range(request.num_samples):
            alone = Request()
            alone.CopyFrom(request)
            seed = request.sampling.seed if request.sampling.HasField("seed") else DRAWN_SEED
            alone.sampling.seed = seed + index
            alone.output.prompt_logprobs = request.output.prompt_logprobs and index == 0
            sample = ScriptedServicer((), self._fingerprint, self._tokens_per_chunk)
            events = list(sample.StreamGenerate(alone, context))
            for event in events:
                event.sample = index
            streams.append(events)
        return (event for event in chain.from_iterable(zip_longest(*streams)) if event is not None)


def serve(*faults: Fault) -> ScriptedServer:
    return ScriptedServer(*faults, servicer_type=SamplesServicer)


def check(chunks: list[outrider.Chunk], result: outrider.Result) -> None:
    samples = [result, *result.further_samples]
    assert [list(sample.token_ids) for sample in samples] == ANSWERS
    for index, sample in enumerate(samples):
        mine = [chunk for chunk in chunks if chunk.sample == index]
        assert [token_id for chunk in mine for token_id in chunk.token_ids] == ANSWERS[index]
        assert "".join(chunk.text for chunk in mine) == sample.text == text_of(ANSWERS[index], is_whole=True)
        assert sample.started.seed == DRAWN_SEED + index


@with_both_clients
def test_all_samples_come_over_one_call(collect: Collect) -> None:
    with serve() as server:
        chunks, result = collect(server.address, num_samples=NUM_SAMPLES)
        check(chunks, result)
        assert len(server.requests) == 1
    assert len({chunk.sample for chunk in chunks[:NUM_SAMPLES]}) == NUM_SAMPLES


NUM_EVENTS = sum(3 + -(-len(ids) // 3) for ids in ANSWERS)
CUTS = range(1, NUM_EVENTS)
BEGINNING = range(1, 4 * NUM_SAMPLES)  # in turn the samples start, have read their prompt, and have a first chunk


@pytest.mark.parametrize("cut", all_with(CUTS, *BEGINNING, *CUTS[::5], *CUTS[-4:]))
def test_every_sample_continues_after_any_event(cut: int) -> None:
    with serve(Fault(at=cut), Fault(at=2)) as server:
        check(*collect_sync(server.address, num_samples=NUM_SAMPLES))
        first, *others = server.requests
        for other in others:
            assert (other.num_samples, other.HasField("continue_from")) in ((NUM_SAMPLES, False), (0, True))
        assert all(other.sampling.HasField("seed") for other in others)
        assert not first.sampling.HasField("seed")


@pytest.mark.parametrize("cut", all_with(CUTS, *BEGINNING, CUTS[-1]))
def test_the_first_sample_alone_has_the_records_of_the_prompt(cut: int) -> None:
    """Also where the server is lost after a sample has started, and before it has a token."""
    with serve(Fault(at=cut), Fault(at=0)) as server:
        _, result = collect_sync(server.address, num_samples=NUM_SAMPLES, prompt_logprobs=True)
    assert [record.id for record in result.prompt_records] == list(PROMPT.encode())
    assert [sample.prompt_records for sample in result.further_samples] == [()] * (NUM_SAMPLES - 1)


def test_samples_not_yet_started_keep_the_prompt_of_the_first() -> None:
    """Which a chat template may render otherwise on another day."""
    with serve(Fault(at=1)) as server:
        check(*collect_sync(server.address, num_samples=NUM_SAMPLES))
        assert [request.prompt.WhichOneof("input") for request in server.requests] == ["text", "token_ids"]


@with_both_clients
def test_both_clients_continue_samples_that_have_not_ended(collect: Collect) -> None:
    with serve(Fault(at=NUM_EVENTS - 2)) as server:
        check(*collect(server.address, num_samples=NUM_SAMPLES))
        assert [request.sampling.seed for request in server.requests[1:]] == [DRAWN_SEED + 1, DRAWN_SEED + 2]


def test_an_error_has_the_received_tokens_of_all_samples() -> None:
    with serve(Fault(at=14)) as server, pytest.raises(outrider.Unavailable) as failure:
        collect_sync(server.address, num_samples=NUM_SAMPLES, max_retries=0)
    received = failure.value.received
    assert received is not None
    for sample, ids in zip([received, *received.further_samples], ANSWERS, strict=True):
        assert 0 < len(sample.token_ids) < len(ids)
        assert list(sample.token_ids) == ids[: len(sample.token_ids)]


def test_too_many_samples_are_refused_at_no_cost_to_the_client() -> None:
    with serve(Fault("arrival", grpc.StatusCode.INVALID_ARGUMENT)) as server, pytest.raises(outrider.InvalidArgument):
        collect_sync(server.address, num_samples=2**31 - 1)


@pytest.mark.parametrize("cut", all_with(CUTS[::3], *BEGINNING, CUTS[::3][-1]))
def test_best_of_is_chosen_again_or_continued_without_a_choice(cut: int) -> None:
    with serve(Fault(at=cut)) as server:
        _, result = collect_sync(server.address, num_samples=NUM_SAMPLES, best_of=NUM_SAMPLES + 2)
        first, *others = server.requests
    assert (first.best_of, first.sampling.HasField("seed")) == (NUM_SAMPLES + 2, True)
    assert others
    for other in others:
        if other.HasField("continue_from"):
            assert not other.HasField("best_of")
        else:
            if other.prompt.HasField("token_ids"):  # once a sample has started
                first.prompt.token_ids.ids[:] = PROMPT.encode()
            assert other == first
    assert result.started.seed == first.sampling.seed


def test_a_started_best_of_stream_continues_as_one_sample() -> None:
    with ScriptedServer(Fault(at=4)) as server:
        collect_sync(server.address, best_of=4)
        first, other = server.requests
    assert (first.best_of, other.HasField("best_of"), other.HasField("continue_from")) == (4, False, True)
    assert other.sampling.seed == first.sampling.seed
