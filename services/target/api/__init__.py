"""The RPCs: messages in, validated requests on to the engine, and its events back as messages."""
