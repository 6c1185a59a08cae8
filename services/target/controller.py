"""Controller: how many predictions a step verifies, and whether speculation pays at all."""

from services.engine.request import SpeculationMode
from services.engine.sequence import Sequence


class Pace:
    """A moving average of the seconds that one committed token takes."""

    _WEIGHT = 0.1  # of a new step

    def __init__(self) -> None:
        self.num_steps = 0
        self.seconds_per_token = 0.0

    def observe(self, seconds: float, num_tokens: int) -> None:
        """Add one step."""
        self.num_steps += 1
        weight = max(self._WEIGHT, 1 / self.num_steps)
        self.seconds_per_token += weight * (seconds / num_tokens - self.seconds_per_token)


class Controller:
    """For the sequences that leave it to us, tries a source both ways and keeps to the faster one, looking again now
    and then.

    A step is of one kind as a whole: with the source's predictions wherever there are any, or without.
    """

    _TRIAL = 16  # steps of one kind before the two are compared
    _INTERVAL = 512  # steps between two looks at the slower kind

    def __init__(self) -> None:
        self._paces = {True: Pace(), False: Pace()}
        self._speculates = True
        self._steps_left = self._TRIAL

    @property
    def detail(self) -> str:
        """What was measured, for a person to read."""
        times = [f"{self._paces[kind].seconds_per_token * 1000:.2f} ms" for kind in (True, False)]
        return f"{times[0]} per token with predictions, {times[1]} without"

    @property
    def speculates(self) -> bool:
        """Whether the next step's predictions are worth their cost."""
        return self._speculates

    def limit(self, sequence: Sequence, *, default: int) -> int:
        """How many predictions to verify for a sequence, at most `default` where the request leaves the number open.

        The last place of what remains is the target's own.
        """
        policy = sequence.request.speculation
        if policy.mode is SpeculationMode.AUTO and not self._speculates:
            return 0
        most = default if policy.num_predictions is None else policy.num_predictions
        return min(most, sequence.num_remaining - 1)

    def observe(self, seconds: float, num_tokens: int) -> None:
        """A step of decoding took so long for so many tokens; decides the kind of those that follow."""
        if num_tokens == 0:
            return
        self._paces[self._speculates].observe(seconds, num_tokens)
        self._steps_left -= 1
        if self._steps_left == 0:
            self._choose()

    def look_again(self) -> None:
        """Try predictions now: what was measured with them says nothing of a draft that has just come."""
        self._paces[True] = Pace()
        self._speculates, self._steps_left = True, self._TRIAL

    def _choose(self) -> None:
        other = self._paces[not self._speculates]
        if other.num_steps < self._TRIAL:
            self._speculates, self._steps_left = not self._speculates, self._TRIAL
            return
        with_predictions, without = (self._paces[kind].seconds_per_token for kind in (True, False))
        self._speculates, self._steps_left = with_predictions < without, self._INTERVAL
        other = self._paces[not self._speculates]
        other.num_steps = 0  # is measured anew when the interval is over
