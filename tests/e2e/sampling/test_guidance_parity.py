"""Guided answers are those of transformers, whose own processor of logits draws them."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from services.engine.guidance import Guidance
from tests.e2e.harness.models import folder
from tests.e2e.harness.stepper import Stepper, request
from tests.e2e.matrix.streams import random_prompt

COUNT = 24


@pytest.mark.parametrize("scale", [1.5, 4.0])
@pytest.mark.parametrize("num_negative", [0, 3, 40])
@pytest.mark.parametrize("name", ["llama", "gemma2"])
async def test_tokens_and_logprobs_are_those_of_transformers(name: str, num_negative: int, scale: float) -> None:
    prompt, negative = random_prompt("prompt", 17), random_prompt("negative", num_negative)
    model = AutoModelForCausalLM.from_pretrained(folder(name), dtype=torch.float32)
    truth = model.generate(
        torch.tensor([prompt]),
        negative_prompt_ids=torch.tensor([negative]) if negative else None,
        guidance_scale=scale,
        max_new_tokens=COUNT,
        do_sample=False,
        eos_token_id=None,
        output_scores=True,
        return_dict_in_generate=True,
    )
    guidance = Guidance(scale=scale, negative_prompt=tuple(negative or prompt[-1:]))
    asked = request(prompt, guidance=guidance, temperature=0.0, max_tokens=COUNT, prompt_logprobs=False)
    stepper = Stepper(name, weights="f32", kv="f32")
    generation = stepper.submit(asked)
    stepper.run()
    records = [record for chunk in await generation.read() for record in getattr(chunk, "records", ())]
    token_ids = truth.sequences[0, len(prompt) :].tolist()
    assert [record.token_id for record in records] == token_ids
    scores = torch.stack(truth.scores)[:, 0].log_softmax(dim=-1)
    expected = scores[torch.arange(COUNT), token_ids].numpy()
    tolerance = 1e-4 * scale  # which spreads what rounding does
    np.testing.assert_allclose([record.raw_logprob for record in records], expected, atol=tolerance)
