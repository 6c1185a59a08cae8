"""Through every sampler the draft draws the target's token nearly as often as any draft of its model could."""

import numpy as np
import pytest

from tests.e2e.acceptance.acceptance import heldout_prompts
from tests.e2e.acceptance.sampler_acceptance import NUM_DRAWN, NUM_PROMPT, SAMPLERS, Reader, agreement, readers

DOCUMENTS = heldout_prompts(NUM_PROMPT + NUM_DRAWN)[::10]


@pytest.fixture(scope="module")
def both() -> tuple[Reader, Reader]:
    return readers(DOCUMENTS)


@pytest.mark.parametrize("name", ["none", "XTC 0.5, 0.1", "mirostat 2, τ 3"])
def test_a_draft_agrees_about_as_often_as_a_coupling_can(both: tuple[Reader, Reader], name: str) -> None:
    """Between what shared noise reaches (1 - TV) / (1 + TV), arXiv 2408.07978, and 1 - TV, four standard errors off."""
    one = agreement(DOCUMENTS, SAMPLERS[name], *both)
    error = 4 * np.sqrt(one.best * (1 - one.best) / one.places)
    assert one.best / (2 - one.best) - error < one.drawn < one.best + error
    assert one.drawn > one.apart
