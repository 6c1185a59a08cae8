"""Code that all APIs share: requests and their fields, streams of pieces, positions in them, errors, usage."""
