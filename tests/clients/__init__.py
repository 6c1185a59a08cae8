"""The clients of other languages, built with what is installed here."""
