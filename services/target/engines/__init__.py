"""The engine of a model, in this process or in one of its own, and its drafts."""
