"""PassesServicer: a toy whose passes are written down, so that the source of each token is known."""

import grpc

from outrider.v1 import common_pb2, generation_pb2
from tests.harness.servers.scripted_server import Request, ScriptedServicer

NOTHING = common_pb2.PREDICTION_SOURCE_UNSPECIFIED
DRAFT, LOOKUP = common_pb2.PREDICTION_SOURCE_DRAFT, common_pb2.PREDICTION_SOURCE_LOOKUP
_PASSES = [  # source, predicted, accepted, whether it begins after an alternate
    (NOTHING, 0, 0, False),
    (DRAFT, 4, 2, False),
    (DRAFT, 4, 2, True),
    (LOOKUP, 2, 1, False),
    (DRAFT, 2, 2, False),
    (DRAFT, 3, 0, True),
    (DRAFT, 1, 1, True),
]
PER_PASS = 3
PROMPT, SEED = "ab", 5


def kind_of(position: int) -> str:
    """The class that the token at a position has to have."""
    source, _, accepted, is_alternate = _PASSES[position // PER_PASS % len(_PASSES)]
    if position % PER_PASS >= accepted:
        return "own"
    return "lookup" if source == LOOKUP else "alternate" if is_alternate else "draft"


class PassesServicer(ScriptedServicer):
    """Each chunk is a pass; the rejected predictions of one are the bytes of several letters é."""

    def _chunk(self, request: Request, whole: list[int], start: int, end: int) -> generation_pb2.Chunk:
        chunk = super()._chunk(request, whole, start, end)
        number = start // PER_PASS
        source, predicted, accepted, _ = _PASSES[number % len(_PASSES)]
        for position, record in enumerate(chunk.records, start):
            record.predicted = kind_of(position) != "own"
            record.prediction_source = source if record.predicted else NOTHING
            record.text = record.bytes.decode(errors="replace")
        report = chunk.pass_reports.add(tokens=end - start, predicted=predicted, accepted=accepted, source=source)
        report.alternates = sum(_PASSES[index % len(_PASSES)][3] for index in range(number + 1))
        for byte in ("é" * (predicted - accepted)).encode()[: predicted - accepted]:
            report.rejected.add(id=byte, bytes=bytes([byte]), text="\ufffd")
        report.verifying.FromMilliseconds(3)
        report.waiting.FromMilliseconds(1)
        return chunk


class TalkerServicer(PassesServicer):
    """The toy with a chat template."""

    def GetModelInfo(  # noqa: N802
        self, request: generation_pb2.GetModelInfoRequest, context: grpc.ServicerContext
    ) -> generation_pb2.GetModelInfoResponse:
        """Return the toy's description, with a chat template."""
        info = super().GetModelInfo(request, context)
        info.has_chat_template = True
        return info
