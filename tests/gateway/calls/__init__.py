"""Tool calls as the API's clients read them."""
