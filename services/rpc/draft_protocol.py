"""What both ends of a draft link know of its protocol beside the messages."""

PROTOCOL_VERSION = 2
MAX_COMMIT = 8192  # token ids in one commit
