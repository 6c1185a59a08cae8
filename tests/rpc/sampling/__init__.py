"""How tokens are sampled, and what is reported of them."""
