"""OpenAI's API: models, completions, chat completions, responses; tokens as other servers give them."""
