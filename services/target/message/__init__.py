"""Parsing an answer as a chat message: reasoning, content and tool calls, in the syntax of its model family."""
