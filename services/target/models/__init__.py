"""The models that are served: each with all that is its own, from its loading to its end."""
