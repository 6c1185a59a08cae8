"""Consumer: one sequence, fed by hand, and what its consumer has got so far."""

from services.engine.events import Chunk, Finished
from services.engine.request import Request
from services.target.output.output_pipeline import OutputPipeline
from services.target.sequence.sequence import Sequence
from services.target.sequence.token_stream import TokenStream
from tests.unit.sequences import make_output, records_of


class Consumer:
    """One sequence and what its consumer has got so far."""

    def __init__(self, request: Request, *, context_length: int = 1 << 20) -> None:
        self.output: OutputPipeline = make_output(request, context_length=context_length)
        self.sequence: Sequence = self.output.sequence
        assert isinstance(self.sequence.stream, TokenStream)
        self.stream = self.sequence.stream

    def commit(self, tokens: bytes | list[int]) -> int:
        taken = self.output.commit(records_of(tokens))
        self.output.write()
        return taken

    async def read(self) -> tuple[str, list[int], Finished]:
        """All text, the ids of all chunks together, and the end."""
        *events, end = [event async for event in self.stream]
        chunks = [event for event in events if isinstance(event, Chunk)]
        assert len(chunks) == len(events)
        assert isinstance(end, Finished)
        ids = [record.token_id for chunk in chunks for record in chunk.records]
        return "".join(chunk.text for chunk in chunks) + end.text, ids, end
