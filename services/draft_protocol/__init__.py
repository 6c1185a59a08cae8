"""The draft protocol, for both ends of a link: its constants, and conversions between messages and engine types."""
