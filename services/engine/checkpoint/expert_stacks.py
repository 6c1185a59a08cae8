"""ExpertStacks: presents a stack of all experts' transposed matrices as one matrix of rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.stored_tensors import TensorsOver

_DIMENSIONS = 3  # experts, inputs, outputs


class ExpertStacks(TensorsOver):
    """The tensors of `inner`; those of three dimensions appear as matrices, with the experts one below the other."""

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one tensor; for a stack it is (experts * outputs, inputs)."""
        if not self._is_stack(name):
            return self._inner.shape(name)
        experts, inputs, outputs = self._inner.shape(name)
        return experts * outputs, inputs

    def rows(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Return rows as numbers.  # [rows, …]"""
        if not self._is_stack(name):
            return self._inner.rows(name, begin, end)
        _, inputs, outputs = self._inner.shape(name)
        rows: list[NDArray[Any]] = []
        for expert in range(begin // outputs, -(-end // outputs)):
            first = expert * outputs
            columns = slice(max(begin - first, 0), min(end - first, outputs))
            rows.append(self._inner.rows(name, expert, expert + 1)[0, :, columns].T)
        return np.concatenate(rows) if rows else self._inner.rows(name, 0, 0).reshape(0, inputs)

    def stored_rows(self, name: str, begin: int, end: int) -> NDArray[np.uint8]:
        """Return rows as they are stored.  # [rows, bytes of a row]"""
        if not self._is_stack(name):
            return self._inner.stored_rows(name, begin, end)
        rows = np.ascontiguousarray(self.rows(name, begin, end))
        return rows.view(np.uint8).reshape(len(rows), -1)

    def _is_stack(self, name: str) -> bool:
        return len(self._inner.shape(name)) == _DIMENSIONS
