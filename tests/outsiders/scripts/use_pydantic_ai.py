"""pydantic-ai: an agent over chat completions and over responses, with words, streams and objects."""

import asyncio
import json
import sys
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


class Colour(BaseModel):
    """What an answer is parsed as."""

    name: Literal["red", "green", "blue"]
    is_dark: bool


async def main(url: str, said: str) -> dict[str, object]:
    """Each of them once."""
    provider = OpenAIProvider(base_url=url, api_key="none")
    told: dict[str, object] = {}
    settings = {"temperature": 0.7, "max_tokens": 40, "extra_body": {"seed": 5}}
    long = {**settings, "max_tokens": 200, "parallel_tool_calls": False}
    terse = {**long, "extra_body": {"seed": 5, "banned_strings": [" ", "\n"]}}
    for name, kind in (("chat", OpenAIChatModel), ("responses", OpenAIResponsesModel)):
        model = kind("target", provider=provider)
        told[name] = (await Agent(model, model_settings=settings).run(said)).output
        async with Agent(model, model_settings=settings).run_stream(said) as stream:
            told[f"{name} streamed"] = await stream.get_output()
        native = Agent(model, output_type=NativeOutput(Colour), model_settings=terse)
        told[f"{name} parsed"] = (await native.run(said)).output.model_dump()
        called = Agent(model, output_type=Colour, model_settings=long)
        told[f"{name} called"] = (await called.run(said)).output.model_dump()
    return told


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
