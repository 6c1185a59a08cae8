"""PeerError: a peer has failed and cannot be measured."""


class PeerError(RuntimeError):
    """A peer's process has ended, or does not answer; the message says which."""
