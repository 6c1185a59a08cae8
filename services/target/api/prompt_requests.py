"""Requests whose prompts are computed without drawing a token, and their events."""

from collections.abc import AsyncGenerator, Callable
from collections.abc import Sequence as Seq
from contextlib import aclosing

from services.engine.events import Aborted, Event, Failed, Finished, FinishReason, Progress
from services.engine.lora.adapter import Adapter
from services.engine.request import (
    CachePolicy,
    OutputOptions,
    Request,
    Share,
    SpeculationMode,
    SpeculationPolicy,
    StopConditions,
)
from services.engine.sampling_params import SamplingParams
from services.service.errors import DeadlineError, RequestCancelledError, UnavailableError
from services.target.sequence.generation import Generation
from services.target.sequence.token_stream import interleaved


def prompt_request(
    prompt: tuple[int, ...],
    *,
    request_id: str,
    output: OutputOptions,
    cache: CachePolicy,
    share: Share,
    lora: Adapter | None,
    deadline: float | None,
) -> Request:
    """A request whose prompt is computed and that draws nothing; the caller sets what it needs of the prompt."""
    return Request(
        request_id=request_id,
        prompt=prompt,
        sampling=SamplingParams(seed=0, temperature=0.0),
        stops=StopConditions(max_tokens=0),
        output=output,
        speculation=SpeculationPolicy(mode=SpeculationMode.NEVER, lookup=False),
        cache=cache,
        share=share,
        lora=lora,
        deadline=deadline,
    )


async def prompt_events(
    generations: Seq[Generation], observe: Callable[[Generation, Event], None]
) -> AsyncGenerator[tuple[int, Progress | Finished]]:
    """All events, each with its generation's index; `observe` is called with each.

    Raises UnavailableError, RequestCancelledError and DeadlineError for one that fails.
    """
    async with aclosing(interleaved(generations)) as events:
        async for index, event in events:
            observe(generations[index], event)
            match event:
                case Failed():
                    raise UnavailableError(event.message)
                case Aborted():
                    raise RequestCancelledError(event.message)
                case Finished(reason=FinishReason.DEADLINE):
                    raise DeadlineError("the call's time is over before all is computed")
                case Progress() | Finished():
                    yield index, event
