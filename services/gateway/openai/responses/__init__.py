"""POST /v1/responses: OpenAI's newer API, without what it stores."""
