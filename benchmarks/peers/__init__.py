"""Other engines on the same checkpoints, each in a process of its own; Outrider neither needs nor installs them."""
