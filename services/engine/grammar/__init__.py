"""Grammars that a text must follow: tried out where they can do no harm, compiled, and followed token by token."""
