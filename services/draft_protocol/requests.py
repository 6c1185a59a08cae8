"""A target's messages to a draft, written to protobuf and read from it."""

from collections.abc import Iterator

from outrider.v1 import draft_pb2
from services.draft_protocol.conversions import (
    read_allowed_tokens,
    read_cache,
    read_dry_breakers,
    read_sampling,
    read_source,
    write_allowed_tokens,
    write_cache,
    write_dry_breakers,
    write_grammar,
    write_sampling,
)
from services.draft_protocol.messages import Close, Commit, Open, TargetMessage, Window
from services.draft_protocol.protocol import MAX_REQUEST_BYTES, MAX_REQUESTS
from services.telemetry.trace_context import read_traceparent


def write_request(message: TargetMessage) -> draft_pb2.DraftRequest:
    """The protobuf of one message, which may be sent alone or merged with others."""
    match message:
        case Open():
            return draft_pb2.DraftRequest(open=_write_open(message))
        case Commit():
            commit = draft_pb2.Commit(
                sequence_id=message.sequence_id,
                position=message.position,
                token_ids=message.token_ids,
                wanted=message.wanted,
                least_chance=round(100 * message.least_chance),
            )
            return draft_pb2.DraftRequest(commit=commit)
        case Window():
            window = draft_pb2.Window(
                sequence_id=message.sequence_id, tokens=message.tokens, alternates=message.alternates
            )
            return draft_pb2.DraftRequest(window=window)
        case Close():
            return draft_pb2.DraftRequest(close=draft_pb2.Close(sequence_id=message.sequence_id))


def read_request(request: draft_pb2.DraftRequest, *, vocab_size: int) -> TargetMessage:
    """The first message of a request whose kind and bounds were checked; `further` ones are not read.

    `vocab_size` is the target's.
    """
    match request.WhichOneof("message"):
        case "open":
            return _read_open(request.open, vocab_size=vocab_size)
        case "commit":
            commit = request.commit
            least_chance = min(100, commit.least_chance) / 100
            return Commit(commit.sequence_id, commit.position, [*commit.token_ids], commit.wanted, least_chance)
        case "window":
            return Window(request.window.sequence_id, request.window.tokens, request.window.alternates)
        case _:
            return Close(request.close.sequence_id)


def merge_requests(requests: Iterator[draft_pb2.DraftRequest]) -> Iterator[draft_pb2.DraftRequest]:
    """Merge as many requests into one as a draft accepts; each is made only when there is room for it."""
    for request in requests:
        size = request.ByteSize()
        while len(request.further) < MAX_REQUESTS - 1 and size < MAX_REQUEST_BYTES // 4:
            if (further := next(requests, None)) is None:
                break
            request.further.append(further)
            size += further.ByteSize()
        yield request


def _write_open(message: Open) -> draft_pb2.Open:
    return draft_pb2.Open(
        sequence_id=message.sequence_id,
        sampling=write_sampling(message.sampling),
        prompt_tokens=message.num_prompt,
        min_tokens=message.min_tokens,
        masked_token_ids=message.masked_ids,
        grammar=None if message.grammar is None else write_grammar(message.grammar),
        cache=write_cache(message.cache),
        allowed_tokens=write_allowed_tokens(message.sampling.allowed_tokens),
        dry_breakers=write_dry_breakers(message.sampling),
        traceparent=message.traceparent,
        lora=message.lora,
    )


def _read_open(message: draft_pb2.Open, *, vocab_size: int) -> Open:
    return Open(
        sequence_id=message.sequence_id,
        sampling=read_sampling(
            message.sampling,
            read_allowed_tokens(message.allowed_tokens, vocab_size=vocab_size),
            read_dry_breakers(message.dry_breakers, vocab_size=vocab_size),
        ),
        num_prompt=message.prompt_tokens,
        min_tokens=message.min_tokens,
        masked_ids=[*message.masked_token_ids],
        grammar=read_source(message.grammar) if message.HasField("grammar") else None,
        cache=read_cache(message.cache),
        traceparent=read_traceparent(message.traceparent),
        lora=message.lora,
    )
