"""instructor: answers as objects, by a schema and by a tool, whole and growing."""

import json
import sys
from typing import Literal

import instructor
import openai
from pydantic import BaseModel


class Colour(BaseModel):
    """What an answer is parsed as."""

    name: Literal["red", "green", "blue"]
    is_dark: bool


url, said = sys.argv[1:]
told = {}
for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS):
    client = instructor.from_openai(openai.OpenAI(base_url=url, api_key="none"), mode=mode)
    asked = {"model": "target", "messages": [{"role": "user", "content": said}], "seed": 5, "max_tokens": 200}
    if mode is instructor.Mode.JSON_SCHEMA:
        asked["extra_body"] = {"banned_strings": [" ", "\n"]}
    whole = client.chat.completions.create(response_model=Colour, max_retries=0, **asked)
    told[mode.value] = whole.model_dump()
    *_, last = client.chat.completions.create_partial(response_model=Colour, max_retries=0, **asked)
    told[f"{mode.value} streamed"] = last.model_dump()
print(json.dumps(told))
