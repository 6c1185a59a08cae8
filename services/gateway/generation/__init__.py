"""What every API asks of a target: requests with their fields, streams of pieces, places in them, errors, usage."""
