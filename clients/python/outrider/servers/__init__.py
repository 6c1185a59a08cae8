"""What a client knows of its servers: channels to them, which is asked next and when again."""
