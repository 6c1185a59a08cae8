"""What the contracts of others have in common: calls by name, grammars in GBNF, names of fields, KV events."""
