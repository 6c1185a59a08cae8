"""RunCount: how many of the runs that came over a link were of use."""


class RunCount:
    """Counts the runs of one link, alternates and releases among them, and says when too many were of no use.

    Some always are: what was under way when a commit contradicted it. One of use makes up for a few that are not.
    """

    MOST_USELESS = 1024  # beyond those that others make up for
    _WORTH = 4  # useless ones

    def __init__(self) -> None:
        self.num_runs = 0
        self.num_useless = 0  # too late, or at odds with the protocol
        self.num_out_of_range = 0  # of those, the ones with ids that no token has
        self._debt = 0

    def __str__(self) -> str:
        return f"{self.num_runs} runs, {self.num_useless} of no use, {self.num_out_of_range} with ids out of range"

    @property
    def num_useful(self) -> int:
        """Runs that were of use."""
        return self.num_runs - self.num_useless

    @property
    def is_unbearable(self) -> bool:
        """Whether the link costs more than it brings."""
        return self._debt > self.MOST_USELESS

    def add(self, *, is_useful: bool, is_in_range: bool = True) -> None:
        """Count a run."""
        self.num_runs += 1
        self.num_useless += not is_useful
        self.num_out_of_range += not is_in_range
        self._debt = max(0, self._debt - self._WORTH) if is_useful else self._debt + 1
