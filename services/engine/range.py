"""Range: the allowed values of a number."""

from dataclasses import dataclass

import numpy as np

FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The allowed values of a number; NaN and values beyond float32 are never allowed."""

    minimum: float
    maximum: float = FLOAT32_MAX
    excludes_minimum: bool = False

    def __str__(self) -> str:
        low = f"above {self.minimum:g}" if self.excludes_minimum else f"at least {self.minimum:g}"
        high = str(self.maximum) if isinstance(self.maximum, int) else f"{self.maximum:g}"
        return f"{low}, at most {high}"


MAX_COUNT = 2**31 - 1  # the largest count on the wire
COUNT = Range(minimum=0, maximum=MAX_COUNT)
# Of logit biases: as much as DRY subtracts at most, so that logits stay finite at every temperature that divides them.
BIAS = Range(minimum=-1e30, maximum=1e30)
