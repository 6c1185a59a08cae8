"""POST /v1/generate: all that the RPC tells of an answer, in the words of the Python client."""
