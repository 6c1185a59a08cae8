"""What real models are asked beside other engines, in texts of our own: chat, code, JSON, a long document."""
