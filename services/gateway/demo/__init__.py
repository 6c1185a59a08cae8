"""POST /demo/draft: takes the target's drafts away while answers are written, for who shows what that changes."""
