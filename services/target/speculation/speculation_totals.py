"""SpeculationTotals: the speculation statistics of all clients' requests."""

import threading

from services.engine.events import NoSpeculation, SpeculationStats
from services.target.sequence.sequence import Sequence


class SpeculationTotals:
    """The engine thread counts, any thread reads."""

    def __init__(self) -> None:
        self.unpredicted = dict.fromkeys(NoSpeculation, 0)
        """Sequences that ended without a prediction, by reason."""
        self._live: set[Sequence] = set()
        self._ended = SpeculationStats()
        self._lock = threading.Lock()  # so that readers see each sequence either live or ended

    def begin(self, sequence: Sequence) -> None:
        """Count a sequence from now on, if it is one that counts."""
        if sequence.request.is_counted:
            with self._lock:
                self._live.add(sequence)

    def end(self, sequence: Sequence) -> None:
        """Keep the statistics of a sequence that has ended or was dropped."""
        if sequence in self._live:
            stats = sequence.speculation
            with self._lock:
                self._live.remove(sequence)
                self._ended.add(stats)
            if not stats.by_source and stats.why_not is not None:
                self.unpredicted[stats.why_not] += 1

    def total(self) -> SpeculationStats:
        """The statistics of all sequences, including those that still run."""
        total = SpeculationStats()
        with self._lock:
            total.add(self._ended)
            for sequence in self._live:
                total.add(sequence.speculation)
        return total
