"""The version of the draft protocol that this release speaks (protos/outrider/v1/draft.proto)."""

PROTOCOL_VERSION = 1
