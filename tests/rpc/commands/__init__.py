"""The commands of a shell."""
