"""Other engines on the same checkpoints, each in a process of its own; none of them is needed, or installed, by us."""
