"""ModelRunner: runs the decoder over scheduled rows; the logits stay on the device."""

from collections.abc import Callable
from collections.abc import Sequence as Seq

from services.engine.cache.cached_tokens import CachedTokens
from services.engine.decoder.native import Batch, Decoder, Pass
from services.engine.run import Run, fill
from services.target.scheduling.scheduled_rows import ScheduledRows, own_rows


class ModelRunner:
    """Runs one pass of the decoder over the scheduled rows of all sequences."""

    def __init__(
        self,
        decoder: Decoder,
        *,
        max_rows: int,
        max_sequences: int,
        max_blocks: int,
        returns_early: bool = False,
        on_pass: Callable[[Pass, Seq[ScheduledRows]], None] | None = None,
    ) -> None:
        """`returns_early` is whether the device computes a pass while the host goes on, as a GPU does; `on_pass` is
        called with the results of each pass.
        """
        self.returns_early, self._on_pass = returns_early, on_pass
        self._decoder = decoder
        self._batch = Batch(max_rows=max_rows, max_sequences=max_sequences, max_blocks=max_blocks)

    def forward(self, scheduled: Seq[ScheduledRows]) -> Pass:
        """Run one pass, with the logits of `num_logits` rows of each of `scheduled`, [rows, vocabulary].

        Each sequence's are the rows of its prompt's records, then the row that draws, then its predictions' rows. After
        those of all sequences come the rows of the guided sequences' negative texts, one for each draw.
        """
        runs = [_run(rows, rows.sequence.text, rows.num_tokens, num_logits=rows.num_logits) for rows in scheduled]
        for rows in scheduled:
            for negative in rows.sequence.texts[1:]:
                runs.append(_run(rows, negative, rows.num_negative, num_logits=rows.num_draws))
        fill(self._batch, (run for run in runs if run.certain > run.text.num_computed))
        results = self._decoder.forward(self._batch)
        if self._on_pass is not None:
            self._on_pass(results, scheduled)
        return results

    @property
    def may_launch_next(self) -> bool:
        """Whether a pass may be launched before the results of the one before it are read."""
        return self.returns_early and self._on_pass is None

    def prepare_next(self, scheduled: Seq[ScheduledRows]) -> None:
        """Lay out the pass after the latest: one row for each of `scheduled`, with a token that is not known yet."""
        fill(self._batch, map(_next_run, scheduled))

    def forward_next(self, token_ids: Seq[int]) -> Pass:
        """Run the pass that was prepared, with these tokens."""
        self._batch.token_ids[: len(token_ids)] = token_ids
        return self._decoder.forward(self._batch)

    def pool(self, results: Pass, scheduled: Seq[ScheduledRows]) -> None:
        """Give each sequence that pools hidden states those that the pass over `scheduled` has computed."""
        for first_row, rows in own_rows(scheduled):
            text, work = rows.sequence.text, rows.sequence.prompt_results
            if positions := work.states(text.num_computed, rows.num_tokens):
                row = first_row + positions.start - text.num_computed
                work.take_states(results.hidden_states(row, len(positions)))


def _run(rows: ScheduledRows, text: CachedTokens, num_tokens: int, *, num_logits: int) -> Run:
    end = text.num_computed + num_tokens
    token_ids = text.tokens[text.num_computed : end] + rows.predictions
    return Run(text=text, token_ids=token_ids, certain=end, num_logits=num_logits, adapter=rows.sequence.request.lora)


def _next_run(rows: ScheduledRows) -> Run:
    text = rows.sequence.text
    assert rows.position is not None
    ahead = rows.position - text.num_computed
    adapter = rows.sequence.request.lora
    return Run(text=text, token_ids=[0], certain=rows.position + 1, num_logits=1, adapter=adapter, ahead=ahead)
