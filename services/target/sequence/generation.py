"""Generation: what is known of one generation where it is read."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from services.engine.events import Chunk, Event, Finished, FinishReason, Scheduled, SpeculationStats, Timings
from services.engine.request import Request
from services.target.sequence.token_stream import TokenStream


class Generation:
    """A submitted request and what its events say about it, which are read once, on one event loop."""

    def __init__(self, number: int, request: Request, stream: TokenStream, *, has_own_prompt: bool = True) -> None:
        """The engine knows it by its number. Further samples of a request have no prompt of their own."""
        self.number = number
        self.request = request
        self.has_own_prompt = has_own_prompt
        self.num_prompt = len(request.prompt)
        self.num_cached = 0  # tokens of the prompt that were found in the cache
        self.num_generated = len(request.received)
        self.timings = Timings(arrived=time.monotonic())
        self.end: FinishReason | None = None
        self.speculation = SpeculationStats()  # known at the end
        self.embedding: NDArray[np.float32] | None = None  # [hidden_size]
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield the events until the one that ends the generation."""
        async for event in self._stream:
            self._take(event)
            yield event

    def _take(self, event: Event) -> None:
        match event:
            case Chunk():
                self.num_generated += len(event.records)
                self.timings.prefilled = self.timings.prefilled or time.monotonic()
            case Scheduled():
                self.num_cached, self.timings.scheduled = event.num_cached, event.at
            case Finished():
                self.num_generated, self.end = event.completion_tokens, event.reason
                self.timings = replace(event.timings, arrived=self.timings.arrived)
                self.speculation = event.speculation
                self.embedding = event.embedding
