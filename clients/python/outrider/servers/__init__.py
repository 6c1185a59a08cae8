"""What a client knows of its servers: channels to them, their health, which is asked next and when again."""
