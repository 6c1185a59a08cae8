"""Grammars that constrain a text: tried in a process that may crash, compiled, and matched token by token."""
