"""Serving: the objects that serve one loaded model, with the limits on each kind of its work."""

from dataclasses import dataclass

from services.service.admission import Admission, Work
from services.service.server_config import ServerConfig
from services.target.generation.engine_interface import Engine
from services.target.metrics.request_statistics import RequestStatistics
from services.target.metrics.target_load import TargetLoad
from services.target.models.served_model import ServedModel
from services.target.sessions.sessions import Sessions


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


@dataclass(frozen=True, slots=True)
class Serving:
    """Each model admits its requests with its own `admissions`, and counts them in its own `statistics`."""

    engine: Engine
    model: ServedModel
    admissions: Admissions
    statistics: RequestStatistics
    load: TargetLoad
    sessions: Sessions
