"""Consumer: one sequence, fed by hand, and what its consumer has got so far."""

from services.engine.events import Chunk, Finished
from services.engine.request import Request
from services.target.output.token_stream import TokenStream
from services.target.scheduling.sequence import Sequence
from tests.unit.sequences import make_sequence, make_stream, records_of


class Consumer:
    """One sequence and what its consumer has got so far."""

    def __init__(self, request: Request, *, context_length: int = 1 << 20) -> None:
        self.stream: TokenStream = make_stream()
        self.sequence: Sequence = make_sequence(request, self.stream, context_length=context_length)

    def commit(self, tokens: bytes | list[int]) -> int:
        taken = self.sequence.commit(records_of(tokens))
        if self.sequence.is_finished:
            self.sequence.deliver_end()
        return taken

    async def read(self) -> tuple[str, list[int], Finished]:
        """All text, the ids of all chunks together, and the end."""
        *chunks, end = [event async for event in self.stream]
        assert all(isinstance(chunk, Chunk) for chunk in chunks)
        ids = [record.token_id for chunk in chunks for record in chunk.records]
        return "".join(chunk.text for chunk in chunks) + end.text, ids, end
