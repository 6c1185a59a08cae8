"""How answers end, and where they go on."""
