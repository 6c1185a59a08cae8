"""Draw what the samplers do to one distribution: `python -m scripts.sampler_picture`, after a change to one of them."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import Device, Sampler, isas
from services.engine.decoder.native.testing import make_logits
from services.engine.request import OutputOptions
from services.engine.sampling_params import SamplingParams
from services.engine.sampling_state import new_sampling_state

PICTURE = Path(__file__).parents[1] / "docs/pictures/samplers.svg"
_LOGITS = np.array([4.0, 3.7, 3.1, 2.9, 2.0, 1.6, 1.5, 0.9, 0.2, -0.3, -1.0, -1.4], np.float32)
_ASKED = OutputOptions(logprobs=True, num_candidates=len(_LOGITS))
_PANELS: list[tuple[str, dict[str, float]]] = [
    ("top_n_sigma 1", {"top_n_sigma": 1.0}),
    ("smoothing_factor 0.3", {"smoothing_factor": 0.3}),
    ("temperature 2", {"temperature": 2.0}),
    ("dynatemp_range 0.9", {"dynatemp_range": 0.9}),
    ("top_k 5", {"top_k": 5}),
    ("top_p 0.9", {"top_p": 0.9}),
    ("min_p 0.1", {"min_p": 0.1}),
    ("top_a 0.4", {"top_a": 0.4}),
    ("tfs_z 0.8", {"tfs_z": 0.8}),
    ("typical_p 0.5", {"typical_p": 0.5}),
    ("epsilon_cutoff 0.05", {"epsilon_cutoff": 0.05}),
    ("eta_cutoff 0.2", {"eta_cutoff": 0.2}),
    ("xtc_threshold 0.1, its chance come", {"xtc_probability": 1.0, "xtc_threshold": 0.1}),
    ("skew 0.7", {"skew": 0.7}),
    ("skew −0.7", {"skew": -0.7}),
    ("mirostat 2, its limit at 3 bits", {"mirostat_mode": 2, "mirostat_tau": 1.5}),
    ("mirostat 1, its limit at 3 bits", {"mirostat_mode": 1, "mirostat_tau": 1.5}),
    ("adaptive_target 0.2", {"adaptive_target": 0.2}),
]
_COLUMNS, _WIDTH, _HEIGHT, _BARS = 3, 250, 120, 80
_STYLE = (
    "text{font:12px sans-serif;fill:#57606a}.before{fill:#8b949e;opacity:.35}.after{fill:#1f6feb}"
    "line{stroke:#8b949e;stroke-width:1}"
)


def _distribution(numbers: dict[str, float]) -> NDArray[np.float64]:
    """The probabilities of all tokens after samplers with these numbers.  # [vocab]"""
    device = Device.cpu(isas()[-1], 1)
    params = SamplingParams(seed=0, **numbers)  # type: ignore[arg-type]
    state = new_sampling_state(params, prompt=(), min_tokens=0, masked_ids=(), output=_ASKED)
    samples = Sampler(device).sample(make_logits(device, _LOGITS[np.newaxis]), [state], [[]])
    result = np.zeros(len(_LOGITS))
    for token_id, _, logprob in samples.candidates(0):
        result[token_id] = np.exp(logprob)
    return result


def _bars(shares: NDArray[np.float64], kind: str, most: float) -> str:
    width = (_WIDTH - 30) / len(shares)
    return "".join(
        f'<rect class="{kind}" x="{index * width + (2 if kind == "before" else 5):.1f}" '
        f'y="{_HEIGHT - 10 - _BARS * share / most:.1f}" '
        f'width="{width - (4 if kind == "before" else 10):.1f}" height="{_BARS * share / most:.1f}"/>'
        for index, share in enumerate(shares)
    )


def draw() -> str:
    """The picture: the model's own distribution in grey, and what each sampler makes of it."""
    before = _distribution({})
    after = [_distribution(numbers) for _, numbers in _PANELS]
    most = max(float(each.max()) for each in after)
    rows = -(-len(_PANELS) // _COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_COLUMNS * _WIDTH} {rows * _HEIGHT}" '
        f'role="img" aria-label="What each sampler does to one distribution"><style>{_STYLE}</style>'
    ]
    for index, ((title, _), shares) in enumerate(zip(_PANELS, after, strict=True)):
        left, top = index % _COLUMNS * _WIDTH + 10, index // _COLUMNS * _HEIGHT
        parts.append(
            f'<g transform="translate({left} {top})"><text x="0" y="16">{title}</text>'
            f"{_bars(before, 'before', most)}{_bars(shares, 'after', most)}"
            f'<line x1="0" x2="{_WIDTH - 30}" y1="{_HEIGHT - 10}" y2="{_HEIGHT - 10}"/></g>'
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw())
