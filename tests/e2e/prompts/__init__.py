"""What is said of prompts, and made of them."""
