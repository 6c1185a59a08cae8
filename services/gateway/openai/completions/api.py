"""COMPLETIONS: the API of POST /v1/completions."""

from services.gateway.generation.head import Head
from services.gateway.generation.writer import Api
from services.gateway.openai.completions.echo_writer import EchoWriter
from services.gateway.openai.completions.request import CompletionRequest
from services.gateway.openai.completions.writer import CompletionWriter
from services.gateway.openai.problem_body import problem_body, problem_event


def _writer(request: CompletionRequest, head: Head) -> CompletionWriter:
    return EchoWriter(request, head) if request.is_only_echoed else CompletionWriter(request, head)


COMPLETIONS = Api(CompletionRequest, _writer, problem_body, problem_event, last=b"data: [DONE]\n\n")
