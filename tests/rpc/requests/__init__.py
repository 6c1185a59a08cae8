"""The fields of requests, what is refused of them, and what is sent for them."""
