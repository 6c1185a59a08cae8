"""Guidance behind the gateway: with a real draft the bytes of the RPC, under field names of its own."""

import pytest

from tests.gateway.harness.running_gateway import RunningGateway

PROMPT, NEGATIVE = "def main(argv):\n", "class Shape:\n"
ASKED = {"prompt": PROMPT, "seed": 3, "max_tokens": 24, "guidance_scale": 1.5}


@pytest.mark.parametrize("negative", [NEGATIVE, [40, 41, 42]])
def test_guidance_gives_the_rpcs_bytes_with_any_predictions(gateway: RunningGateway, negative: str | list[int]) -> None:
    answers = [
        gateway.post("/v1/completions", {**ASKED, "negative_prompt": negative, "speculation": mode}).json()
        for mode in ("never", "always")
    ]
    with gateway.rpc() as rpc:
        expected = rpc.generate(PROMPT, seed=3, max_tokens=24, guidance_scale=1.5, negative_prompt=negative)
        plain = rpc.generate(PROMPT, seed=3, max_tokens=24)
    assert [answer["choices"][0]["text"] for answer in answers] == [expected.text] * 2
    assert expected.text != plain.text
    told = answers[1]["usage"]["completion_tokens_details"]
    assert told["accepted_prediction_tokens"] > 0
    assert told["rejected_prediction_tokens"] > 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"guidance_scale": 0}, "guidance_scale: is 0; allowed: above 0, at most 100"),
        ({"negative_prompt": ""}, "negative_prompt: is empty; allowed: at least one character"),
        ({"negative_prompt": []}, "negative_prompt: is empty; allowed: at least one token"),
        ({"heal": True}, "guidance_scale: is set; allowed: not to be, with prompt.heal"),
        ({"penalty_alpha": 0.6}, "penalty_alpha"),
    ],
)
def test_bad_guidance_fields_are_named_as_they_were_sent(
    gateway: RunningGateway, fields: dict[str, object], said: str
) -> None:
    refused = gateway.post("/v1/completions", {**ASKED, **fields})
    assert refused.status_code == 400
    assert said in refused.json()["error"]["message"]
