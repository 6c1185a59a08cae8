"""Account: what speculation has gained lately, and how much it may lose."""


class Account:
    """Counts in plain steps, the time in which every sequence gets one token. A small share of the time is its income,
    what predictions save is put in and what they cost is taken out: so a bad predictor costs that share, whatever it
    does, and no more.
    """

    _START = 8.0
    _MOST = 16.0  # a predictor that has turned bad is found out when this is spent
    _INCOME = 0.008  # of a step
    _ENOUGH = 4.0  # to begin again, with a draft that has to catch up first

    def __init__(self) -> None:
        self.balance = self._START
        self.is_open = True

    def earn(self) -> None:
        """A plain step has passed."""
        self._change(self._INCOME)

    def charge(self, cost: float) -> None:
        """So much is due."""
        self._change(-cost)

    def settle(self, gain: float) -> None:
        """A step with predictions has brought so many plain steps' tokens more than it took time for, or fewer."""
        self._change(gain + self._INCOME)

    def _change(self, amount: float) -> None:
        self.balance = min(self._MOST, self.balance + amount)
        if self.balance < 0:
            self.is_open = False
        elif self.balance >= self._ENOUGH:
            self.is_open = True
