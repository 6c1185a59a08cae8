"""Good and bad values of an infill's fields."""

from tests.rpc.harness.field_examples import Fields, Good, X


def _infill(**infill: object) -> Fields:
    return {"prompt": {"text": "", "infill": {"suffix": "", **infill}}, "output": {"prompt_token_ids": True}}


def _shown(fields: Fields) -> Good:
    return Good(fields, lambda seen: list(seen.streamed.started.prompt_token_ids).count(X) == 40)


GOOD_INFILLS = {
    "prompt.infill.suffix": _shown(_infill(suffix="x" * 40)),
    "prompt.infill.files.name": _shown(_infill(files=[{"name": "x" * 40}])),
    "prompt.infill.files.text": _shown(_infill(files=[{"name": "a", "text": "x" * 40}])),
}
BAD_INFILLS = {
    "infill of a model without marks": (
        {"prompt": {"text": "a", "infill": {"suffix": "b"}}},
        "prompt.infill",
        "is set; allowed: not to be: the model's tokenizer has no marks",
    ),
    "infill beside ids": (
        {"prompt": {"token_ids": {"ids": [3]}, "infill": {"suffix": "b"}}},
        "prompt.infill",
        "is set; allowed: only with prompt.text",
    ),
    "infill beside a conversation": (
        {"prompt": {"chat": {"messages": [{"role": "user", "content": "a"}]}, "infill": {}}},
        "prompt.infill",
        "is set; allowed: only with prompt.text",
    ),
}
BAD_FILES: dict[str, Fields] = {"prompt.infill.files": _infill(files=[{"name": "a"}] * 257)}
INFILL_TOLD_BY_PARENT = {
    "prompt.infill.suffix": "prompt.infill",
    "prompt.infill.files.name": "prompt.infill.files",
    "prompt.infill.files.text": "prompt.infill.files",
}
