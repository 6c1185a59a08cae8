"""The draft predicts over gRPC what its model predicts of the target's text, to the token."""

import pytest

from tests.e2e.acceptance.acceptance import experiment, heldout_prompts


@pytest.mark.parametrize("temperature", [0.0, 0.7])
async def test_every_verdict_online_is_the_one_offline(temperature: float):
    with experiment() as running:
        streams = await running.run(heldout_prompts()[::16], temperature=temperature, num_predictions=6)
    verdicts = [is_right for stream in streams for is_right in stream.judged.values()]
    assert verdicts.count(True) >= 50
    assert verdicts.count(False) >= 50
    assert [stream.contradictions for stream in streams] == [[]] * len(streams)
