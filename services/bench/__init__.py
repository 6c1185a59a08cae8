"""`outrider bench`: measures the decoder, and the services with and without speculation."""
