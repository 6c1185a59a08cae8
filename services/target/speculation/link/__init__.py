"""The link to a draft service, as its target sees it."""
