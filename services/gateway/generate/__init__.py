"""POST /v1/generate: everything that the RPC reports of an answer, under the Python client's field names."""
