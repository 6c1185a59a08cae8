"""Errors in the format of Anthropic's API; their messages name the field."""

from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.writer import Event, Json

_TYPES = {
    Kind.UNAUTHENTICATED: "authentication_error",
    Kind.FORBIDDEN: "permission_error",
    Kind.NOT_FOUND: "not_found_error",
    Kind.TOO_LARGE: "request_too_large",
    Kind.FULL: "rate_limit_error",
    Kind.BROKEN: "api_error",
    Kind.UNAVAILABLE: "overloaded_error",
    Kind.LATE: "timeout_error",
}


def problem_body(problem: Problem) -> Json:
    """Return the body of an error response."""
    kind = _TYPES.get(problem.kind, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": problem.message, "field": problem.field}}


def problem_event(problem: Problem) -> Event:
    """Return the event of an error in a stream."""
    return Event(problem_body(problem), "error")
