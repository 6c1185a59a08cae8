"""outrider bench: the project's vital signs (decoder, services, speculation), measured in one run on this machine."""
