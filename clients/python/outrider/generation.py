"""Generation: what has arrived of one stream, and how to take it up again. It does no input or output itself."""

from collections.abc import Sequence
from dataclasses import replace

from outrider.chat.decode import parse_deltas
from outrider.chat.message import MessageDelta, message_of
from outrider.errors import FingerprintMismatch, OutriderError, Unavailable
from outrider.proof import Proof
from outrider.response import (
    parse_chunk,
    parse_finish_reason,
    parse_prefill,
    parse_speculation,
    parse_started,
    parse_timings,
    parse_usage,
)
from outrider.servers.retry import Attempts
from outrider.token_record import Suppressed, Token
from outrider.types import (
    Chunk,
    PassReport,
    Prefill,
    Received,
    Result,
    Started,
)
from outrider.v1 import common_pb2, generation_pb2


class Generation:
    """One generation over as many calls as it takes.

    A driver repeats: make the call that `next_request` and `time_left` describe at `address`, hand every event to
    `receive`, then either `check_finished` or, on an error, wait for as long as `failed` says.
    """

    def __init__(self, request: generation_pb2.StreamGenerateRequest, attempts: Attempts) -> None:
        self.started: Started | None = None
        self.prefill: Prefill | None = None
        self.resumed = 0
        self._request = generation_pb2.StreamGenerateRequest()
        self._request.CopyFrom(request)
        self._request.output.prompt_token_ids = True
        self._attempts = attempts
        self._text: list[str] = []
        self._token_ids: list[int] = []
        self._tokens: list[Token] = []
        self._pass_reports: list[PassReport] = []
        self._prompt_records: list[Token] = []
        self._suppressed: list[Suppressed] = []
        self._deltas: list[MessageDelta] = []
        self._grammar: common_pb2.Grammar | None = None  # that the server made of a tool choice
        self._finished: generation_pb2.Finished | None = None

    @property
    def address(self) -> int:
        """Index of the address to call."""
        return self._attempts.address

    def move_to(self, address: int) -> None:
        """Note that another server has gone on."""
        self._attempts.address = address

    @property
    def is_finished(self) -> bool:
        """Whether the last event has arrived."""
        return self._finished is not None

    def time_left(self) -> float | None:
        """Seconds that the next call may take, or None; raises DeadlineExceeded when there are none left."""
        return self._attempts.time_left()

    def next_request(self) -> generation_pb2.StreamGenerateRequest:
        """The request to send now: the original one until the generation has started, then its continuation."""
        if self.started is None:
            return self._request
        request = self._continuation(self.started)
        request.continue_from.token_ids.extend(self._token_ids)
        return request

    def _continuation(self, started: Started) -> generation_pb2.StreamGenerateRequest:
        """The request to continue without any tokens."""
        request = generation_pb2.StreamGenerateRequest()
        request.CopyFrom(self._request)
        self.set_prompt(request)
        request.ClearField("best_of")  # what has started is the best already
        request.sampling.seed = started.seed
        request.request_id = started.request_id
        request.continue_from.fingerprint = started.fingerprint
        return request

    def _proof(self, started: Started, finished: generation_pb2.Finished) -> Proof:
        whole = Proof(
            request=self._continuation(started),
            request_digest=finished.proof.request_digest,
            token_ids=tuple(self._token_ids),
            text="".join(self._text),
            finish_reason=parse_finish_reason(finished.reason),
        )
        return replace(whole, request=whole.question())

    def set_prompt(self, request: generation_pb2.StreamGenerateRequest) -> None:
        """Have a request begin with the ids of the prompt, once the generation has started.

        Another server need not have the session, and on another day a chat template may give other ids.
        """
        if self.started is None:
            return
        request.ClearField("session")  # whose tokens are among those of the prompt
        if (chat := request.prompt.chat).tool_choice.mode != common_pb2.TOOL_CHOICE_MODE_NONE:
            request.output.tools.MergeFrom(chat.tools)
        request.prompt.token_ids.SetInParent()  # also if there are none
        request.prompt.token_ids.ids[:] = self.started.prompt_token_ids
        if self._grammar is not None:
            request.grammar.CopyFrom(self._grammar)

    def receive(self, event: generation_pb2.StreamGenerateResponse) -> Chunk | None:
        """Take in one event and return its chunk, if it is one, or the last text if it ends the generation.

        Raises FingerprintMismatch if a server goes on that should have refused.
        """
        self._attempts.answered()
        match event.WhichOneof("event"):
            case "started":
                self._receive_started(parse_started(event.started))
                if event.started.HasField("grammar"):
                    self._grammar = event.started.grammar
            case "prefill":
                self.prefill = parse_prefill(event.prefill)
                self._prompt_records.extend(self.prefill.records)
            case "chunk":
                return self._receive_chunk(parse_chunk(event.chunk))
            case "finished":
                self._finished = event.finished
                return self._receive_last_text(event.finished)
        return None

    def starts_alike(self, events: Sequence[generation_pb2.StreamGenerateResponse]) -> bool:
        """Whether another call, which begins with these events, continues with the same bytes; before the start any
        bytes will do.
        """
        if self.started is None or not events:
            return True
        started = events[0].started
        return (started.fingerprint, started.seed) == (self.started.fingerprint, self.started.seed)

    def _receive_started(self, started: Started) -> None:
        if self.started is None:
            self.started = started
            return
        if (started.fingerprint, started.seed) != (self.started.fingerprint, self.started.seed):
            raise FingerprintMismatch(
                f"the server continues with fingerprint {started.fingerprint} and seed {started.seed}, "
                f"but the generation has {self.started.fingerprint} and {self.started.seed}"
            )
        self.resumed += 1
        if not self._token_ids:
            self._prompt_records.clear()  # they come anew

    def _receive_chunk(self, chunk: Chunk) -> Chunk:
        self._attempts.progressed()
        self._text.append(chunk.text)
        self._token_ids.extend(chunk.token_ids)
        self._tokens.extend(chunk.tokens)
        self._pass_reports.extend(chunk.pass_reports)
        self._suppressed.extend(chunk.suppressed)
        self._deltas.extend(chunk.message_deltas)
        return chunk

    def _receive_last_text(self, finished: generation_pb2.Finished) -> Chunk | None:
        deltas = parse_deltas(finished.message_deltas)
        self._text.append(finished.text)
        self._deltas.extend(deltas)
        return Chunk(finished.text, (), (), (), message_deltas=deltas) if finished.text or deltas else None

    def check_finished(self) -> None:
        """Raise Unavailable if a call has ended without the last event."""
        if not self.is_finished:
            raise Unavailable("the server ended the stream early")

    def failed(self, error: OutriderError) -> float:
        """Seconds to wait before the next call; raises the error if there is to be none."""
        seeks = self._request.HasField("continue_from")  # a server of that fingerprint
        return self._attempts.failed(error, resuming=self.started is not None, seeks_fingerprint=seeks)

    def received(self) -> Received:
        """All that has arrived so far."""
        return Received(
            self.started,
            "".join(self._text),
            tuple(self._token_ids),
            tuple(self._tokens),
            tuple(self._prompt_records),
        )

    def result(self) -> Result:
        """The whole generation; raises RuntimeError before it has ended."""
        if self._finished is None or self.started is None:
            raise RuntimeError("the generation has not ended")
        finished, received = self._finished, self.received()
        matched = finished.WhichOneof("matched_stop")
        return Result(
            started=self.started,
            text=received.text,
            token_ids=received.token_ids,
            tokens=received.tokens,
            finish_reason=parse_finish_reason(finished.reason),
            stop_string=finished.stop_string if matched == "stop_string" else None,
            stop_token_id=finished.stop_token_id if matched == "stop_token_id" else None,
            usage=parse_usage(finished.usage),
            timings=parse_timings(finished.timings),
            speculation=parse_speculation(finished.speculation),
            pass_reports=tuple(self._pass_reports),
            prompt_records=received.prompt_records,
            suppressed=tuple(self._suppressed),
            resumed=self.resumed,
            message=message_of(self._deltas) if self._request.output.message_deltas else None,
            proof=self._proof(self.started, finished) if finished.HasField("proof") else None,
        )
