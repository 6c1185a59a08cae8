"""A request's sampling parameters other than plain numbers."""
