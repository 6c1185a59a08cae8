"""Admissions: how much of each kind of work the target service takes in."""

from services.service.admission import Admission, Work
from services.service.server_config import ServerConfig


class Admissions:
    """What is counted of calls, but for their bytes: `streams`, those of all samples, until they end; `waiting_tokens`
    of prompts, until the first token behind them is drawn; and `text_calls`.
    """

    def __init__(self, server: ServerConfig, *, max_sequences: int) -> None:
        """Of a server that runs so many sequences at once."""
        self._max_sequences = max_sequences
        self.streams = Admission(Work.STREAMS, 0)
        self.waiting_tokens = Admission(Work.PROMPT_TOKENS, 0)
        self.text_calls = Admission(Work.TEXT_CALLS, 0)
        self.resize(server)

    def resize(self, server: ServerConfig) -> None:
        """Let in more or less from now on; what is here stays."""
        streams, waiting, calls = server.max_queue, server.max_waiting_tokens, server.max_text_calls
        self.streams.resize(self._max_sequences + streams, server.streams_per_caller(self._max_sequences))
        self.waiting_tokens.resize(waiting, server.share(waiting))
        self.text_calls.resize(calls, server.share(calls))
