"""How often the demo draft draws the target's token through each sampler, and how often any draft of its model could.

`python -m tests.e2e.acceptance.sampler_acceptance` puts the table into docs/use/samplers.md. Both models read the same
held-out documents; target and draft draw at every place with one seed, through the same sampler.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch, Device, Sampler, Samples, isas
from tests.e2e.acceptance.acceptance import heldout_prompts
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET, ROOT
from tests.native.harness.sampling_reference import Doubles, Settings, reported_logprobs

PAGE = ROOT / "docs" / "use" / "samplers.md"
SAMPLERS = {
    "none": Settings(),
    "temperature 0.7": Settings(temperature=0.7),
    "top-k 20": Settings(top_k=20),
    "top-p 0.9": Settings(top_p=0.9),
    "min-p 0.1": Settings(min_p=0.1),
    "top-n-sigma 1": Settings(top_n_sigma=1.0),
    "smoothing 0.3": Settings(smoothing_factor=0.3),
    "dynamic temperature 1 ± 0.5": Settings(dynatemp_range=0.5),
    "top-a 0.3": Settings(top_a=0.3),
    "tail-free 0.9": Settings(tfs_z=0.9),
    "typical 0.9": Settings(typical_p=0.9),
    "epsilon 0.01": Settings(epsilon_cutoff=0.01),
    "eta 0.01": Settings(eta_cutoff=0.01),
    "XTC 0.5, 0.1": Settings(xtc_probability=0.5, xtc_threshold=0.1),
    "skew 0.5": Settings(skew=0.5),
    "mirostat 1, τ 3": Settings(mirostat_mode=1, mirostat_tau=3.0),
    "mirostat 2, τ 3": Settings(mirostat_mode=2, mirostat_tau=3.0),
    "adaptive-p 0.4": Settings(adaptive_target=0.4),
    "penalties 1.2, 0.3, 0.3": Settings(repetition_penalty=1.2, frequency_penalty=0.3, presence_penalty=0.3),
    "no run of 3 twice": Settings(no_repeat_ngram_size=3),
    "DRY 0.8": Settings(dry_multiplier=0.8),
}
NUM_PROMPT, NUM_DRAWN = 16, 12  # tokens of a document: those before the first draw, and those that are drawn
_HEAD = "| sampler | best possible | the draft | a greedy one | a seed of its own |\n"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Shares of places."""

    places: int
    best: float  # 1 less the total variation of the two distributions
    drawn: float  # in which both draw the same
    greedy: float  # in which the draft's likeliest is drawn
    apart: float  # in which both draw the same with noises of their own


class Reader:
    """A model, and what its sampler makes of every place of a text."""

    def __init__(self, folder: Path, num_tokens: int) -> None:
        self._device = Device.cpu(isas()[0], 1)
        self._num_blocks = -(-num_tokens // BLOCK_SIZE)
        self._decoder = load_decoder(
            load_checkpoint(folder), self._device, weights="bf16", kv="bf16", num_blocks=self._num_blocks
        )
        self._sampler = Sampler(self._device)

    def read(self, tokens: Seq[int], asked: Settings) -> Samples:
        """Draw after each token from NUM_PROMPT on but the last, as if all before it were the answer so far."""
        batch = Batch(max_rows=len(tokens), max_sequences=1, max_blocks=self._num_blocks)
        places = range(NUM_PROMPT, len(tokens))
        batch.append(tokens[:-1], position=0, blocks=range(self._num_blocks), num_logits=len(places))
        logits = self._decoder.forward(batch).logits
        states = [asked.state(tokens[:NUM_PROMPT], tokens[NUM_PROMPT:place]) for place in places]
        return self._sampler.sample(logits, states, [[] for _ in states])


def agreement(documents: Seq[Seq[int]], asked: Settings, target: Reader, draft: Reader) -> Agreement:
    """Of two models with the same vocabulary."""
    rows = np.array([row for seed, tokens in enumerate(documents) for row in _rows(tokens, seed, asked, target, draft)])
    best, drawn, greedy, apart = rows.mean(axis=0)
    return Agreement(len(rows), float(best), float(drawn), float(greedy), float(apart))


def _rows(
    tokens: Seq[int], seed: int, asked: Settings, target: Reader, draft: Reader
) -> Iterator[tuple[float, bool, bool, bool]]:
    told = replace(asked, seed=seed, logprobs=True, num_candidates=1 << 20)
    ours, theirs = target.read(tokens, told), draft.read(tokens, told)
    others = draft.read(tokens, replace(asked, seed=seed + 1_000_000))
    for row, token_id in enumerate(ours.token_ids):
        p, q = (_shares(samples, row) for samples in (ours, theirs))
        yield (
            float(np.minimum(p, q).sum()),
            bool(token_id == theirs.token_ids[row]),
            bool(token_id == q.argmax()),
            bool(token_id == others.token_ids[row]),
        )


def _shares(samples: Samples, row: int) -> Doubles:
    most = 1 + max(token_id for token_id, _, _ in samples.candidates(row))
    result = np.zeros(1 << 14)
    result[:most] = np.exp(reported_logprobs(samples, row, most).astype(np.float64))
    return result


def readers(documents: Seq[Seq[int]]) -> tuple[Reader, Reader]:
    """The demo target and its draft."""
    longest = max(map(len, documents))
    return Reader(DEMO_TARGET, longest), Reader(DEMO_DRAFT, longest)


def main() -> None:
    """Measure over all held-out documents, and write."""
    documents = heldout_prompts(NUM_PROMPT + NUM_DRAWN)
    target, draft = readers(documents)
    lines = []
    for name, asked in SAMPLERS.items():
        one = agreement(documents, asked, target, draft)
        lines.append(f"| {name} | {one.best:.3f} | {one.drawn:.3f} | {one.greedy:.3f} | {one.apart:.3f} |\n")
        print(f"{one.places} places {lines[-1]}", end="", flush=True)
    before, _, after = PAGE.read_text().partition(_HEAD)
    rest = "\n\n" + after.partition("\n\n")[2] if "\n\n" in after else "\n"
    PAGE.write_text(before + _HEAD + "|---|---|---|---|---|\n" + "".join(lines).rstrip("\n") + rest)


if __name__ == "__main__":
    main()
