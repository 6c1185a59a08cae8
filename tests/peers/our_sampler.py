"""Rows as the sampler of this repository processes them."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np

from tests.native.harness.sampling_reference import Doubles, Floats, Settings, reported_logprobs, sample


def our_shares(logits: Floats, asked: Seq[Settings], histories: Seq[Seq[int]]) -> Iterator[Doubles]:
    """The probabilities of each row, 0 for tokens that are cut.  # logits: [rows, vocab]"""
    vocab = logits.shape[1]
    states = [
        replace(each, logprobs=True, num_candidates=vocab).state((), history)
        for each, history in zip(asked, histories, strict=True)
    ]
    samples = sample(logits, states)
    for row in range(len(logits)):
        # The least probability is not 0, whatever float32 makes of it.
        logprobs = np.maximum(reported_logprobs(samples, row, vocab).astype(np.float64), -690)
        kept = np.isfinite(reported_logprobs(samples, row, vocab))
        yield np.where(kept, np.exp(logprobs), 0)
