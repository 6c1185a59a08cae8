"""instructor on Outrider's gateway: `python instructor_extract.py [URL]` reads a sentence into an object.

The answer follows the schema by a grammar, so the first one is valid and instructor has nothing to ask again.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["instructor==1.17.0", "openai==3.3.0"]
# ///

import sys
from typing import Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel, Field


class Ticket(BaseModel):
    """What is to be read."""

    kind: Literal["bug", "question", "wish"]
    urgency: int = Field(ge=1, le=5)
    needs_answer: bool


def main(url: str) -> None:
    """Print the ticket as JSON."""
    openai = OpenAI(base_url=f"{url}/v1", api_key="none")
    client = instructor.from_openai(openai, mode=instructor.Mode.JSON_SCHEMA)
    ticket = client.create(
        model=openai.models.list().data[0].id,
        response_model=Ticket,
        messages=[{"role": "user", "content": "It crashes whenever I press the red button. Help!"}],
        max_retries=0,
        temperature=0,
    )
    print(ticket.model_dump_json())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
