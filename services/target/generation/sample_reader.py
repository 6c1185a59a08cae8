"""SampleReader: what the native sampler says of each row, as records."""

import numpy as np

from services.engine.decoder.native import Logits, Samples
from services.engine.events import Candidate, FinishReason, PredictionSource, TokenRecord
from services.engine.request import OutputOptions

_FAILURES = {1: FinishReason.NO_CANDIDATES, 2: FinishReason.INVALID_LOGITS}


class SampleReader:
    """Reads single rows of samples, and of the logits that they were drawn from."""

    def __init__(self, samples: Samples, logits: Logits) -> None:
        self._samples = samples
        self._logits = logits
        self._status = samples.status
        self._token_ids = samples.token_ids

    def failure(self, row: int) -> FinishReason | None:
        """Why a row has no token; None if it has one."""
        return _FAILURES.get(int(self._status[row]))

    def token_id(self, row: int) -> int:
        """The token of a row that has one."""
        return int(self._token_ids[row])

    def record(self, row: int, output: OutputOptions, source: PredictionSource | None = None) -> TokenRecord:
        """What was asked to be told of a row's token."""
        samples = self._samples
        logprobs = output.logprobs
        return TokenRecord(
            self.token_id(row),
            raw_logprob=float(samples.raw_logprobs[row]) if logprobs else None,
            logprob=float(samples.logprobs[row]) if logprobs else None,
            candidates=self._candidates(row) if output.num_candidates else (),
            source=source,
            rank=int(samples.ranks[row]) if output.rank else None,
            entropy=float(samples.entropies[row]) if output.entropy else None,
            logits=self._logits_of(row, output.logits_token_ids) if output.logits else None,
        )

    def _candidates(self, row: int) -> tuple[Candidate, ...]:
        return tuple(Candidate(*candidate) for candidate in self._samples.candidates(row))

    def _logits_of(self, row: int, token_ids: tuple[int, ...]) -> bytes:
        values = self._logits.row(row)
        if token_ids:
            values = values[list(token_ids)]
        return values.astype(np.dtype("<f4"), copy=False).tobytes()
