"""GET /: a page on which one sees the draft at work; its files are served as they are."""
