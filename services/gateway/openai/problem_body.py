"""Errors in the format of OpenAI's API."""

from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.writer import Event, Json

_TYPES = {
    Kind.UNAUTHENTICATED: "authentication_error",
    Kind.FORBIDDEN: "permission_error",
    Kind.FULL: "rate_limit_error",
    Kind.BROKEN: "server_error",
    Kind.UNAVAILABLE: "server_error",
    Kind.LATE: "server_error",
}
_CODES = {
    Kind.UNAUTHENTICATED: "invalid_api_key",
    Kind.FULL: "rate_limit_exceeded",
    Kind.UNAVAILABLE: "service_unavailable",
    Kind.TOO_LARGE: "request_too_large",
    Kind.CHANGED: "answer_changed",
}


def problem_body(problem: Problem) -> Json:
    """Return the body of an error response."""
    code = "model_not_found" if problem.field == "model" else _CODES.get(problem.kind)
    kind = _TYPES.get(problem.kind, "invalid_request_error")
    return {"error": {"message": problem.message, "type": kind, "param": problem.field, "code": code}}


def problem_event(problem: Problem) -> Event:
    """Return the event of an error in a stream of completions."""
    return Event(problem_body(problem))


def response_problem_event(problem: Problem) -> Event:
    """Return the event of an error in a stream of a response."""
    error = problem_body(problem)["error"]
    return Event({"type": "error", **{name: error[name] for name in ("code", "message", "param")}}, "error")
