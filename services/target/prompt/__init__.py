"""Encoding texts and conversations to token ids, on threads and in worker processes off the event loop."""
