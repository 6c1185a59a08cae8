"""Shapes of real models, and how much is measured of them."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelShape:
    """One layer's sizes."""

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """Outputs and inputs of a layer's matrices, as the decoder fuses them."""
        return {
            "qkv": ((self.heads + 2 * self.kv_heads) * self.head_dim, self.hidden),
            "o": (self.hidden, self.heads * self.head_dim),
            "gate_up": (2 * self.intermediate, self.hidden),
            "down": (self.hidden, self.intermediate),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The measurements, and how often each is taken."""

    shapes: dict[str, ModelShape]
    weights: Seq[str] = ("bf16", "int8", "int4", "fp8")
    rows: Seq[int] = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 2048)
    caches: Seq[str] = ("bf16", "int8")
    contexts: Seq[int] = (1 << 10, 8 << 10, 32 << 10, 128 << 10)
    attention_rows: Seq[int] = (1, 4, 16, 512)
    small_rows: Seq[int] = (1, 16, 64)  # of what is no product and no attention
    times: int = 64  # that such a one is enqueued in a run
    runs: int = 20
    cold_bytes: int = 128 << 20  # more than the caches hold: weights are read in turn
    run_bytes: int = 2 << 30  # of a run over few rows, beside which the host's part is nothing


_8B = ModelShape(4096, 14336, 32, 8, 128)
_1B = ModelShape(2048, 8192, 32, 8, 64)

PLANS = {
    "whole": Plan(shapes={"8b": _8B, "1b": _1B}),
    # What most of a pass takes, in a third of the time.
    "quick": Plan(
        shapes={"8b": _8B},
        rows=(1, 4, 8, 16, 32, 64, 128, 512, 2048),
        contexts=(1 << 10, 8 << 10, 128 << 10),
        small_rows=(1,),
        runs=7,
        run_bytes=1 << 30,
    ),
    # Products of few rows alone, for a choice between shapes.
    "few": Plan(shapes={"8b": _8B}, rows=(1, 8, 16), contexts=(), small_rows=(), runs=9, run_bytes=1 << 30),
    # Each kernel once, for a profiler.
    "once": Plan(
        shapes={"8b": _8B},
        weights=("bf16", "int4"),
        rows=(1, 16, 64),
        caches=("bf16",),
        contexts=(8 << 10,),
        attention_rows=(1, 16),
        small_rows=(1,),
        times=1,
        runs=0,
        cold_bytes=0,
        run_bytes=0,
    ),
    # All of it in seconds, wherever it runs.
    "smallest": Plan(
        shapes={"smallest": ModelShape(64, 96, 4, 2, 16)},
        rows=(1, 3),
        contexts=(288,),
        attention_rows=(1, 3),
        small_rows=(3,),
        times=2,
        runs=1,
        cold_bytes=1,
        run_bytes=1,
    ),
}
