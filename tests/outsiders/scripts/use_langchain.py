"""langchain-openai: a chat, its stream, a structured answer, a call of a tool; a text that is continued."""

import json
import sys
from typing import Literal

from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel, SecretStr


class Colour(BaseModel):
    """What an answer is parsed as."""

    name: Literal["red", "green", "blue"]
    is_dark: bool


class Add(BaseModel):
    """Adds two numbers."""

    first: int
    second: int


url, said = sys.argv[1:]
key = SecretStr("none")
chat = ChatOpenAI(base_url=url, api_key=key, model="target", temperature=0.7, seed=5, max_completion_tokens=40)
long = ChatOpenAI(base_url=url, api_key=key, model="target", temperature=0.7, seed=5, max_completion_tokens=200)
terse = long.model_copy(update={"extra_body": {"banned_strings": [" ", "\n"]}})
text = OpenAI(base_url=url, api_key=key, model="target", temperature=0.7, seed=5, max_tokens=40)
(call,) = long.bind_tools([Add], tool_choice="Add", parallel_tool_calls=False).invoke(said).tool_calls
print(
    json.dumps(
        {
            "chat": chat.invoke(said).content,
            "streamed": "".join(str(chunk.content) for chunk in chat.stream(said)),
            "parsed": terse.with_structured_output(Colour, method="json_schema").invoke(said).model_dump(),
            "called": [call["name"], sorted(call["args"])],
            "text": text.invoke(said),
        }
    )
)
