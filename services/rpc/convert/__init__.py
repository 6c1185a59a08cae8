"""The way between generated messages and engine types: requests are read, responses are written."""
