"""POST /v1/responses: OpenAI's newer API, without stored responses."""
