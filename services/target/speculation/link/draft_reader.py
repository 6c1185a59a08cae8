"""DraftReader: checks a draft's messages and passes them to the RemotePredictor; RunCount: counts the useful ones."""

import asyncio
import time

from google.protobuf.message import DecodeError
from grpc import aio

from outrider.v1 import draft_pb2
from services.draft_protocol.protocol import MAX_ALTERNATES, MAX_RESPONSES, MAX_WINDOW
from services.draft_protocol.responses import read_load, read_predictions, read_release
from services.service.event_loop_share import EventLoopShare
from services.target.speculation.link.remote_predictor import RemotePredictor

ENDED = "it ended the stream"
_LOAD_SECONDS = 0.1  # the least time between two load messages

DraftCall = aio.StreamStreamCall[draft_pb2.DraftRequest, bytes]


class BrokenLinkError(RuntimeError):
    """The draft breaks the protocol, or its predictions are useless."""


class RunCount:
    """Counts the runs of one link, including alternates and releases, and detects when too many were useless.

    Some always are: those under way when a commit contradicts them. A useful run makes up for a few useless ones.
    """

    MOST_USELESS = 1024  # not counting those that useful runs make up for
    _WORTH = 4  # useless runs that a useful one makes up for

    def __init__(self) -> None:
        self.num_runs = 0
        self.num_useless = 0  # too late, or against the protocol
        self.num_out_of_range = 0  # useless ones that have ids outside the vocabulary
        self._debt = 0

    def __str__(self) -> str:
        return f"{self.num_runs} runs, {self.num_useless} useless, {self.num_out_of_range} with ids out of range"

    @property
    def num_useful(self) -> int:
        """The number of useful runs."""
        return self.num_runs - self.num_useless

    @property
    def is_unbearable(self) -> bool:
        """Whether too many runs were useless to keep the link."""
        return self._debt > self.MOST_USELESS

    def add(self, *, is_useful: bool, is_in_range: bool = True) -> None:
        """Count a run."""
        self.num_runs += 1
        self.num_useless += not is_useful
        self.num_out_of_range += not is_in_range
        self._debt = max(0, self._debt - self._WORTH) if is_useful else self._debt + 1


class DraftReader:
    """Reads one link. Lists are walked only after their lengths are checked, and the link ends when many more messages
    were useless than useful.
    """

    def __init__(self, call: DraftCall, predictor: RemotePredictor, *, vocab_size: int) -> None:
        self.runs = RunCount()
        self._call = call
        self._predictor = predictor
        self._vocab_size = vocab_size
        self._share = EventLoopShare()
        self._heard_load_at = 0.0

    async def hello(self) -> draft_pb2.DraftHello:
        """The hello, which must come first; raises BrokenLinkError for another message, AioRpcError without one."""
        data = await self._call.read()
        if not isinstance(data, bytes) or (response := _parse(data)).WhichOneof("message") != "hello":
            raise BrokenLinkError("it does not say hello")
        return response.hello

    async def read(self) -> None:
        """Read until the link ends, which raises BrokenLinkError or AioRpcError."""
        while isinstance(data := await self._call.read(), bytes):
            began = time.thread_time()
            response = _parse(data)
            _check_count("messages as one", 1 + len(response.further), MAX_RESPONSES)
            for each in (response, *response.further):
                self._hear(each)
            if rest := self._share.rest_after(time.thread_time() - began):
                await asyncio.sleep(rest)
        raise BrokenLinkError(ENDED)

    def _hear(self, response: draft_pb2.DraftResponse) -> None:
        match response.WhichOneof("message"):
            case "predict":
                self._hear_predict(response.predict)
            case "released":
                self.runs.add(is_useful=self._predictor.hear(read_release(response.released)))
            case "load":
                self._hear_load(response.load)
            case "hello":
                raise BrokenLinkError("it said hello a second time")
            case None:
                raise BrokenLinkError("it sent a message with none of predict, released and load in it")
        if self.runs.is_unbearable:
            raise BrokenLinkError(f"its predictions are useless, they come too late or make no sense: {self.runs}")

    def _hear_load(self, message: draft_pb2.DraftLoad) -> None:
        """Take the draft's load; a message that comes too soon after the last one counts as useless."""
        heard_before, self._heard_load_at = self._heard_load_at, time.monotonic()
        if self._heard_load_at - heard_before < _LOAD_SECONDS:
            self.runs.add(is_useful=False)
        self._predictor.hear_load(read_load(message))

    def _hear_predict(self, message: draft_pb2.Predict) -> None:
        _check_count("alternates at once", len(message.alternates), MAX_ALTERNATES)
        for token_ids in (message.token_ids, *(alternate.token_ids for alternate in message.alternates)):
            _check_count("token ids in one run", len(token_ids), MAX_WINDOW)
        for prediction in read_predictions(message):
            is_in_range = prediction.largest_id < self._vocab_size
            is_useful = is_in_range and self._predictor.hear(prediction)
            self.runs.add(is_useful=is_useful, is_in_range=is_in_range)
            self._predictor.counts.add(prediction, is_useful=is_useful)


def _parse(data: bytes) -> draft_pb2.DraftResponse:
    try:
        return draft_pb2.DraftResponse.FromString(data)
    except DecodeError:
        raise BrokenLinkError("it sent bytes that are no message of the protocol") from None


def _check_count(what: str, count: int, most: int) -> None:
    if count > most:
        raise BrokenLinkError(f"it sent {count} {what}; at most {most} are allowed")
