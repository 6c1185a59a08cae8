"""AdapterSet: the LoRA adapters of a model, by their names in requests, and how many requests use each."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from services.engine.lora.adapter import Adapter


class AdapterSet(Mapping[str, Adapter]):
    """Only one thread may change it and use adapters; others may read it meanwhile."""

    def __init__(self, adapters: Mapping[str, Adapter], on_unused: Callable[[Adapter], None]) -> None:
        """`on_unused` is called with an adapter that was dropped, once no request uses it any more."""
        self._adapters = dict(adapters)
        self._on_unused = on_unused
        self._num_users = Counter[Adapter]()

    def __getitem__(self, name: str) -> Adapter:
        return self._adapters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._adapters))

    def __len__(self) -> int:
        return len(self._adapters)

    def add(self, adapter: Adapter) -> None:
        """Make an adapter available to requests by its name, which no other adapter has."""
        self._adapters[adapter.name] = adapter

    def drop(self, name: str) -> int:
        """Make an adapter unavailable to further requests; returns how many still use it."""
        adapter = self._adapters.pop(name)
        num_users = self._num_users[adapter]
        self._release_unused(adapter)
        return num_users

    @contextmanager
    def using(self, adapter: Adapter) -> Iterator[None]:
        """Keep an adapter loaded until this context ends and the sequences that were submitted in it are dropped."""
        self._num_users[adapter] += 1
        try:
            yield
        finally:
            self._num_users[adapter] -= 1
            self._release_unused(adapter)

    def _release_unused(self, adapter: Adapter) -> None:
        if self._adapters.get(adapter.name) != adapter and not self._num_users[adapter]:
            del self._num_users[adapter]
            self._on_unused(adapter)
