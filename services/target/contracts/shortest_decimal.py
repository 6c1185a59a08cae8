"""shortest_decimal: the number that a client meant who has 32 bits for it."""

import numpy as np


def shortest_decimal(value: float) -> float:
    """Return the shortest decimal of a number that 32 bits hold, so that their 0.9 is the 0.9 of 64 bits; other numbers
    are returned as they are.
    """
    with np.errstate(over="ignore"):
        narrow = np.float32(value)
    return float(str(narrow)) if float(narrow) == value else value
