"""langchain-openai: a call, its result, an answer and a further question."""

import json
import sys
from typing import Literal

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr


class Weather(BaseModel):
    """Tells the weather."""

    days: Literal[1, 2]


url, said = sys.argv[1:]
extra = {"seed": 5, "max_thinking_tokens": 4}
settings = {"base_url": url, "api_key": SecretStr("none"), "model": "agent", "temperature": 0.7}
told = {}
for name, options in (("chat", {}), ("responses", {"use_responses_api": True})):
    model = ChatOpenAI(**settings, **options, max_completion_tokens=200, extra_body=extra)
    messages = [HumanMessage(said)]
    first = model.bind_tools([Weather], tool_choice="required", parallel_tool_calls=False).invoke(messages)
    (call,) = first.tool_calls
    messages += [first, ToolMessage("It is clear.", tool_call_id=call["id"])]
    brief = ChatOpenAI(**settings, **options, max_completion_tokens=16, extra_body=extra).bind_tools([Weather])
    messages += [brief.invoke(messages), HumanMessage("And tomorrow?")]
    third = brief.invoke(messages)
    told[name] = [call["name"], call["args"], third.type]
print(json.dumps(told))
