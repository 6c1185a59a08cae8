"""litellm: a call, its result, an answer and a further question, as OpenAI's API and as Anthropic's."""

import json
import sys

import litellm

url, said = sys.argv[1:]
schema = {
    "type": "object",
    "properties": {"days": {"enum": [1, 2]}},
    "required": ["days"],
    "additionalProperties": False,
}
tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
told = {}
own = {"max_thinking_tokens": 4}
for model, base, extra in (
    ("openai/agent", url, {"extra_body": {"seed": 5, **own}}),
    ("anthropic/agent", url.removesuffix("/v1"), own),
):
    asked = {"api_base": base, "api_key": "none", "temperature": 0.7, "tools": tools, "model": model}
    messages = [{"role": "user", "content": said}]
    first = litellm.completion(
        messages=messages,
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=200,
        **extra,
        **asked,
    ).choices[0]
    (call,) = first.message.tool_calls
    messages += [first.message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "It is clear."}]
    second = litellm.completion(messages=messages, max_tokens=9, **extra, **asked).choices[0]
    messages += [second.message.model_dump(), {"role": "user", "content": "And tomorrow?"}]
    third = litellm.completion(messages=messages, max_tokens=9, **extra, **asked)
    told[model] = [call.function.name, json.loads(call.function.arguments), third.choices[0].finish_reason]
print(json.dumps(told))
