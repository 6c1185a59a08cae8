"""What both ends of a draft link share: its constants, and messages to engine types and back."""
