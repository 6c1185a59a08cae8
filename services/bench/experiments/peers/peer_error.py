"""PeerError: a peer cannot be measured after all."""


class PeerError(RuntimeError):
    """A peer's process has ended, or does not answer; the message says which."""
