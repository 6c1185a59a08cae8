"""AnswerFields: what completions and chat completions report beside the answer."""

from pydantic import Field

from services.gateway.generation.handling import PassedOver
from services.gateway.generation.part import Part


class StreamOptions(Part):
    """Options of a stream beside the answer."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = Field(
        None, description="With `include_usage`, whether each event has the usage of its choice so far."
    )
    include_obfuscation: PassedOver[bool] = None


class AnswerFields(Part):
    """A request whose answer may report usage while it is streamed, and token ids."""

    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None

    @property
    def wants_usage(self) -> bool:
        """Whether a stream reports the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def wants_usage_so_far(self) -> bool:
        """Whether each event of a stream reports it."""
        return self.wants_usage and bool(self.stream_options and self.stream_options.continuous_usage_stats)
