"""litellm: a chat, its stream, and a text, by its name for servers that speak as OpenAI's does; and Anthropic's API."""

import json
import sys

import litellm

url, said = sys.argv[1:]
asked = {"api_base": url, "api_key": "none", "temperature": 0.7, "seed": 5, "max_tokens": 40}
messages = [{"role": "user", "content": said}]
chat = litellm.completion(model="openai/target", messages=messages, **asked)
stream = litellm.completion(model="openai/target", messages=messages, stream=True, **asked)
text = litellm.text_completion(model="text-completion-openai/target", prompt=said, **asked)
try:
    litellm.completion(model="openai/target", messages=messages, extra_body={"top_p": 7}, **asked)
except litellm.BadRequestError as error:
    refused = str(error)
print(
    json.dumps(
        {
            "chat": chat.choices[0].message.content,
            "streamed": "".join(part.choices[0].delta.content or "" for part in stream),
            "text": text.choices[0].text,
            "refused": refused,
        }
    )
)
