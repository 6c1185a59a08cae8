"""RunCount: how many of the runs that came over a link were of use."""


class RunCount:
    """Counts the runs of one link, and notices once when none has been of use for long."""

    _LONG = 256  # runs in a row

    def __init__(self) -> None:
        self.num_runs = 0
        self.num_useless = 0  # too late, or at odds with the protocol
        self.num_out_of_range = 0  # of those, the ones with ids that no token has
        self._row = 0  # useless runs since the last one of use
        self._is_noticed = False

    def __str__(self) -> str:
        return f"{self.num_runs} runs, {self.num_useless} of no use, {self.num_out_of_range} with ids out of range"

    def add(self, *, is_useful: bool, is_in_range: bool = True) -> None:
        """Count a run."""
        self.num_runs += 1
        self.num_useless += not is_useful
        self.num_out_of_range += not is_in_range
        self._row = 0 if is_useful else self._row + 1

    def notice(self) -> bool:
        """Whether none has been of use for long; said once."""
        is_news = self._row >= self._LONG and not self._is_noticed
        self._is_noticed |= is_news
        return is_news
