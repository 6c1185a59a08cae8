"""Good and bad values of a guidance's fields."""

import math

from tests.harness.models.checkpoints import CONTEXT_LENGTH
from tests.rpc.harness.field_examples import Good

GOOD_GUIDANCE = {
    "guidance.scale": Good({"guidance": {"scale": 4.0}}, lambda seen: seen.differs),
    "guidance.negative_prompt.text": Good(
        {"guidance": {"scale": 4.0, "negative_prompt": {"text": "the shadow"}}}, lambda seen: seen.differs
    ),
    "guidance.negative_prompt.token_ids.ids": Good(
        {"guidance": {"scale": 4.0, "negative_prompt": {"token_ids": {"ids": [*range(40, 90)]}}}},
        lambda seen: seen.differs,
    ),
}

BAD_GUIDANCE = {
    "guidance by nothing": ({"guidance": {"scale": 0.0}}, "guidance.scale", "is 0; allowed: above 0, at most 100"),
    "too much guidance": ({"guidance": {"scale": 101.0}}, "guidance.scale", "is 101; allowed"),
    "guidance is NaN": ({"guidance": {"scale": math.nan}}, "guidance.scale", "is nan"),
    "empty negative prompt": ({"guidance": {"negative_prompt": {}}}, "guidance.negative_prompt", "text or token_ids"),
    "empty negative text": (
        {"guidance": {"negative_prompt": {"text": ""}}},
        "guidance.negative_prompt.text",
        "is empty; allowed: at least one character",
    ),
    "unknown negative id": (
        {"guidance": {"negative_prompt": {"token_ids": {"ids": [3, 9999]}}}},
        "guidance.negative_prompt.token_ids.ids[1]",
        "is 9999; allowed: 0 to 511",
    ),
    "long negative prompt": (
        {"guidance": {"negative_prompt": {"token_ids": {"ids": [7] * CONTEXT_LENGTH}}}},
        "guidance.negative_prompt.token_ids.ids",
        "so that the context has room for one more of both",
    ),
    "guidance of a prompt without room for it": (
        {"prompt": {"token_ids": {"ids": [7] * (CONTEXT_LENGTH - 1)}}, "guidance": {"scale": 2.0}},
        "guidance.negative_prompt",
        "is not set, so that it is 1 token long; allowed: at most 0",
    ),
    "guidance of a healed prompt": (
        {"prompt": {"text": "the sun", "heal": True}, "guidance": {"scale": 2.0}},
        "guidance",
        "is set; allowed: not to be, with prompt.heal",
    ),
}
