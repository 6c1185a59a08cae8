"""Samples: what has arrived of several samples of one prompt, and how to take each of them up again."""

import secrets
from dataclasses import replace

from outrider.errors import OutriderError, Unavailable
from outrider.generation import Generation
from outrider.servers.retry import Attempts
from outrider.types import Chunk, Prefill, Received, Result, Started
from outrider.v1 import generation_pb2


class Samples:
    """Several generations over as many calls as it takes, driven as one.

    The first call gives all samples at once. Once it is interrupted, those that have not ended are continued one after
    the other, each by calls of its own: a sample is an ordinary generation with its own seed, which `started` names.
    """

    def __init__(self, request: generation_pb2.StreamGenerateRequest, attempts: Attempts) -> None:
        self._request = generation_pb2.StreamGenerateRequest()
        self._request.CopyFrom(request)
        self._request.output.prompt_token_ids = True
        self._alone = generation_pb2.StreamGenerateRequest()
        self._alone.CopyFrom(request)
        self._alone.ClearField("num_samples")
        self._alone.ClearField("best_of")
        self._attempts = attempts
        self._generations = [Generation(self._alone, attempts)]  # those that have started, and the first
        self._alone.output.prompt_logprobs = False  # which the first sample alone has
        self._continued: int | None = None  # the sample whose call is under way; None where it is all of them

    @property
    def started(self) -> Started | None:
        """How the first sample started."""
        return self._generations[0].started

    @property
    def prefill(self) -> Prefill | None:
        """The last progress report on the prompt, which the first sample gets."""
        return self._generations[0].prefill

    @property
    def address(self) -> int:
        """Index of the address to call."""
        return self._attempts.address

    @property
    def is_finished(self) -> bool:
        """Whether every sample's last event has arrived."""
        return self._all_started and all(generation.is_finished for generation in self._generations)

    def time_left(self) -> float | None:
        """The same as `Generation.time_left`."""
        return self._attempts.time_left()

    def next_request(self) -> generation_pb2.StreamGenerateRequest:
        """The request to send now: that for all samples until all have started, then a continuation of one."""
        if self._all_started:
            ended = [generation.is_finished for generation in self._generations]
            self._continued = ended.index(False)
            return self._generations[self._continued].next_request()
        request = generation_pb2.StreamGenerateRequest()
        request.CopyFrom(self._request)
        if self.started is not None and not _is_ranked(request):  # of some the seeds are known: they must not change
            request.sampling.seed = self.started.seed
        self._generations[0].set_prompt(request)
        return request

    def receive(self, event: generation_pb2.StreamGenerateResponse) -> Chunk | None:
        """As `Generation.receive`, for the sample that the event belongs to."""
        sample = event.sample if self._continued is None else self._continued
        if sample == len(self._generations):  # they start in order
            self._generations.append(Generation(self._alone, self._attempts))
        chunk = self._generations[sample].receive(event)
        return None if chunk is None else replace(chunk, sample=sample)

    @property
    def _all_started(self) -> bool:
        return self.started is not None and len(self._generations) == self._request.num_samples

    def check_finished(self) -> None:
        """Raise Unavailable if a call has ended without the last event of what it was for."""
        if self._continued is None and not self.is_finished:
            raise Unavailable("the server ended the stream early")
        if self._continued is not None:
            self._generations[self._continued].check_finished()

    def failed(self, error: OutriderError) -> float:
        """The same as `Generation.failed`."""
        return self._attempts.failed(error, resuming=self.started is not None)

    def received(self) -> Received:
        """All that has arrived so far, as the first sample's with the others'."""
        first, *further = (generation.received() for generation in self._generations)
        return replace(first, further_samples=tuple(further))

    def result(self) -> Result:
        """All whole generations, as the first sample's with the others'; raises RuntimeError before all have ended."""
        first, *further = (generation.result() for generation in self._generations)
        return replace(first, further_samples=tuple(further))


def new_generation(request: generation_pb2.StreamGenerateRequest, attempts: Attempts) -> Generation | Samples:
    """What keeps track of a request's answer; where the best of several is chosen, a call that is repeated chooses
    among the same.
    """
    if _is_ranked(request) and not request.sampling.HasField("seed"):
        request.sampling.seed = secrets.randbits(64)
    return Samples(request, attempts) if request.num_samples > 1 else Generation(request, attempts)


def _is_ranked(request: generation_pb2.StreamGenerateRequest) -> bool:
    """Whether the first sample to start is the best one, whose seed is not the request's."""
    return request.best_of > 1
