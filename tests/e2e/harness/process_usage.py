"""ProcessUsage: memory, descriptors and threads of one service, as far as they can be seen from outside."""

from collections.abc import Iterator
from contextlib import suppress

from tests.e2e.harness.draft_rig import Service
from tests.e2e.harness.usage_curve import MIB, UsageCurve

_MEMORY_ALLOWANCE = 8.0  # MiB
_THREADS_ALLOWANCE = 4.0  # gRPC's pool takes some more where it gets little of the machine, and lets them go again


class ProcessUsage:
    """A restarted service is measured from its start: it is watched only while its process stays the same."""

    def __init__(self, name: str, service: Service) -> None:
        self._service = service
        self._memory = UsageCurve(f"MiB of the {name}", allowance=_MEMORY_ALLOWANCE, unit=MIB)
        self._descriptors = UsageCurve(f"descriptors of the {name}", allowance=2.0)
        self._threads = UsageCurve(f"threads of the {name}", allowance=_THREADS_ALLOWANCE)

    def __iter__(self) -> Iterator[UsageCurve]:
        return iter((self._memory, self._descriptors, self._threads))

    def sample(self) -> None:
        """Look once; nothing if it does not run just now."""
        with suppress(OSError):
            amounts = self._service.resident_bytes, self._service.num_descriptors, self._service.num_threads
            for curve, amount in zip(self, amounts, strict=True):
                curve.add(amount)
