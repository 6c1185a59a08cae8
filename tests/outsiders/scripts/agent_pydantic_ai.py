"""pydantic-ai: an agent whose model calls a tool, gets its result, answers, and is asked again."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Literal

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


def weather_of(days: list[int]) -> Callable[[Literal[1, 2]], str]:
    """A tool that keeps the numbers that it is called with."""

    def weather(number: Literal[1, 2]) -> str:
        """Tells the weather."""
        days.append(number)
        return "It is clear."

    return weather


async def main(url: str, said: str) -> dict[str, object]:
    """Each API once; the tool is required once only, since an agent asks again after each call."""
    told: dict[str, object] = {}
    provider = OpenAIProvider(base_url=url, api_key="none")
    for name, kind in (("chat", OpenAIChatModel), ("responses", OpenAIResponsesModel)):
        days: list[int] = []
        agent = Agent(kind("agent", provider=provider))
        agent.tool_plain(weather_of(days))
        extra = {"seed": 5, "max_thinking_tokens": 4}
        settings = {"temperature": 0.7, "max_tokens": 200, "parallel_tool_calls": False, "extra_body": extra}
        required = {**settings, "extra_body": {**extra, "tool_choice": "required"}}
        async with agent.iter(said, model_settings=required) as run:
            node = run.next_node
            while not agent.is_end_node(node) and not days:
                node = await run.next(node)
            history = [*run.all_messages(), node.request]  # the tool's result
        brief = {**settings, "max_tokens": 120}
        second = await agent.run(message_history=history, model_settings=brief)
        again = await agent.run("And tomorrow?", message_history=second.all_messages(), model_settings=brief)
        told[name] = [days, [type(message).__name__ for message in again.all_messages()]]
    return told


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
