"""pydantic-ai on Outrider's gateway: `python pydantic_ai_agent.py [URL]` asks for an answer of a type."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["pydantic-ai-slim[openai]==2.68.0"]
# ///

import sys
from typing import Literal

from openai import OpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Verdict(BaseModel):
    """What the agent is to answer."""

    sentiment: Literal["positive", "neutral", "negative"]
    is_sure: bool


def main(url: str) -> None:
    """Print the verdict as JSON."""
    name = OpenAI(base_url=f"{url}/v1", api_key="none").models.list().data[0].id
    model = OpenAIChatModel(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))
    agent = Agent(model, output_type=NativeOutput(Verdict), instructions="Judge what is said.")
    answer = agent.run_sync("The soup was cold, and I would come back any day.", model_settings={"temperature": 0})
    print(answer.output.model_dump_json())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
