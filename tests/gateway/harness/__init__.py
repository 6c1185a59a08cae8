"""What the tests of the gateway share: a running gateway, and a reader of its events."""
