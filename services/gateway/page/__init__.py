"""GET /: a page that shows the draft at work; its files are served unchanged."""
