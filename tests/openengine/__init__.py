"""OpenEngine's contract, called as routers call it: by its own messages."""
