"""POST /demo/draft: disconnects the target's drafts while answers are generated, for demonstrations."""
