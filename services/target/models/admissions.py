"""Admissions: the limits on each kind of work of one model."""

from services.service.admission import Admission, Work
from services.service.server_config import ServerConfig


class Admissions:
    """Admits `streams`, one for each sample until it ends; `waiting_tokens` of prompts until the first token after them
    is drawn; and `text_calls`. The bytes of requests are limited elsewhere.
    """

    def __init__(self, server: ServerConfig, *, max_sequences: int) -> None:
        """`max_sequences` is how many sequences run at once."""
        self._max_sequences = max_sequences
        self.streams = Admission(Work.STREAMS, 0)
        self.waiting_tokens = Admission(Work.PROMPT_TOKENS, 0)
        self.text_calls = Admission(Work.TEXT_CALLS, 0)
        self.resize(server)

    def resize(self, server: ServerConfig) -> None:
        """Change the limits from now on; work that was admitted stays."""
        streams, waiting, calls = server.max_queue, server.max_waiting_tokens, server.max_text_calls
        self.streams.resize(self._max_sequences + streams, server.streams_per_caller(self._max_sequences))
        self.waiting_tokens.resize(waiting, server.share(waiting))
        self.text_calls.resize(calls, server.share(calls))
