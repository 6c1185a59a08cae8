"""The target's end of the link to a draft: what is said to it, what it predicts, and when it is given up."""
