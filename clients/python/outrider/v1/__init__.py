"""Stubs generated from protos/outrider/v1 by scripts/protos.sh."""
