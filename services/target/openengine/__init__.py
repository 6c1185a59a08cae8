"""OpenEngine's contract on the target's port, for routers that use it; the generation service answers."""
