"""LangChain on Outrider's gateway: `python langchain_chat.py [URL]`."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["langchain-openai==1.7.3", "langchain-core==1.7.2"]
# ///

import sys

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from openai import OpenAI


def main(url: str) -> None:
    """Stream the answer of a chain: a template, the model, the text of what it says."""
    model = ChatOpenAI(
        base_url=f"{url}/v1",
        api_key="none",
        model=OpenAI(base_url=f"{url}/v1", api_key="none").models.list().data[0].id,  # the one that is served
        temperature=0.7,
        seed=7,
        max_completion_tokens=60,
        extra_body={"speculation": "auto", "banned_strings": ["As an AI"]},
    )
    prompt = ChatPromptTemplate([("system", "Be short."), ("user", "What is {thing} good for?")])
    for text in (prompt | model | StrOutputParser()).stream({"thing": "a hash table"}):
        print(text, end="", flush=True)
    print()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
