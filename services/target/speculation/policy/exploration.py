"""Exploration: decides when a step tries something other than the best plan, to measure what it is worth."""

from collections.abc import Sequence as Seq
from dataclasses import replace

from services.target.speculation.policy.policy_config import ExplorationConfig
from services.target.speculation.policy.speculation_plan import AutoSequence, SpeculationPlan


class Exploration:
    """Counts a controller's steps and verified runs; the measurements are made elsewhere."""

    def __init__(self, config: ExplorationConfig) -> None:
        self._config = config
        self._num_plain = 0  # steps without predictions since the last probe
        self._num_speculative = 0  # steps with predictions since the last one without
        self._plain_every = config.first_plain_every  # steps with predictions before one without
        self._probe_every = config.first_probe_every  # steps without predictions before a probe
        self._probe_left = 0  # steps of the current probe
        self._first_lengths = config.first_lengths  # most predictions of the runs that are verified first

    @property
    def wants_plain(self) -> bool:
        """Whether it is time for a step without predictions."""
        return self._num_speculative >= self._plain_every

    @property
    def rehearsed_length(self) -> int:
        """Predictions in this step of a rehearsal."""
        return self._config.rehearsed_lengths[self._num_speculative % len(self._config.rehearsed_lengths)]

    def observe(self, *, is_speculative: bool) -> None:
        """Count a step with or without predictions."""
        if is_speculative:
            self._num_speculative += 1
            return
        self._num_plain += 1
        if self.wants_plain:
            self._plain_every = min(2 * self._plain_every, self._config.last_plain_every)
        self._num_speculative = 0

    def settle(self) -> None:
        """Count a verified run."""
        self._first_lengths = self._first_lengths[1:]

    def begin_probes_anew(self) -> None:
        """Reset the interval of probes, since predictions pay: if they no longer do, a probe comes soon."""
        self._probe_every = self._config.first_probe_every

    def take_probe(self) -> bool:
        """Whether this step, for which no plan pays, is part of a probe; call it once in each such step."""
        if self._probe_left == 0 and self._num_plain >= self._probe_every:
            self._probe_left, self._num_plain = self._config.probe_steps, 0
            self._probe_every = min(2 * self._probe_every, self._config.last_probe_every)
        is_probing = self._probe_left > 0
        self._probe_left -= is_probing
        return is_probing

    def vary(self, best: SpeculationPlan, sequences: Seq[AutoSequence], *, spare_rows: int) -> SpeculationPlan:
        """Now and then verify one prediction more than the best plan, since positions that are never verified have no
        rate. At first verify the configured lengths, to measure how long predictions take.
        """
        lengths = [*best.lengths]
        if self._first_lengths:
            return replace(best, lengths=[min(length, self._first_lengths[0]) for length in lengths])
        if self._num_speculative % self._config.longer_every or sum(lengths) >= spare_rows:
            return best
        turn = self._num_speculative // self._config.longer_every % len(sequences)
        if lengths[turn]:
            lengths[turn] = min(lengths[turn] + 1, sequences[turn].max_length)
        return replace(best, lengths=lengths)
