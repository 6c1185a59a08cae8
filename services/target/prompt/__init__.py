"""Texts and conversations become token ids, on threads and in worker processes beside the event loop."""
