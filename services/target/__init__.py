"""The target service: holds the model whose words the client gets, and generates them."""
