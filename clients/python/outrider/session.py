"""Sessions: beginnings of prompts that a server holds by name, how to ask for one, and what it tells of it."""

from dataclasses import dataclass
from typing import TypedDict

from outrider.request import Prompt, check_names, set_options, set_prompt
from outrider.v1 import generation_pb2

_FIELDS = {
    "name": "name",
    "parent": "parent",
    "ttl_seconds": "ttl_seconds",
    "salt": "salt",
    "add_special_tokens": "prompt.add_special_tokens",
    "request_id": "request_id",
    "priority": "priority",
    "model": "model",
}


class SessionOptions(TypedDict, total=False):
    """Options of a new session; what is left out, or None, takes the server's default."""

    name: str | None
    parent: str | None
    """The name of a session that this one begins with: the prompt follows its tokens."""
    ttl_seconds: float | None
    """Between its last use and its end."""
    salt: str | None
    """Beside requests that name the session, only those with the same `cache_salt` share what it holds."""
    add_special_tokens: bool | None
    request_id: str | None
    priority: int | None
    model: str | None


@dataclass(frozen=True, slots=True)
class Session:
    """A session as the server last reported it; requests take its `name` as `session`."""

    name: str
    model: str
    fingerprint: str
    num_tokens: int
    num_blocks: int
    """Blocks of the KV cache that it holds; others may hold them too."""
    ttl_seconds: float
    seconds_left: float
    token_ids: tuple[int, ...]
    """All of its tokens, with which it can be made again elsewhere; empty where sessions are listed."""


def build_session_request(prompt: Prompt, options: SessionOptions) -> generation_pb2.CreateSessionRequest:
    """The request to make a session; raises TypeError and InvalidArgument for what cannot even be sent."""
    check_names(options, _FIELDS)
    request = generation_pb2.CreateSessionRequest(token_ids=True)
    set_prompt(request, prompt)
    set_options(request, options, _FIELDS)
    return request


def parse_session(message: generation_pb2.Session) -> Session:
    """What the server tells of one."""
    return Session(
        name=message.name,
        model=message.model,
        fingerprint=message.fingerprint,
        num_tokens=message.tokens,
        num_blocks=message.blocks,
        ttl_seconds=message.ttl_seconds,
        seconds_left=message.seconds_left,
        token_ids=tuple(message.token_ids),
    )


def parse_sessions(message: generation_pb2.ListSessionsResponse) -> tuple[Session, ...]:
    """All that it tells of, the oldest first."""
    return tuple(map(parse_session, message.sessions))
