"""Generated from protos/openengine/v1 by `make protos`."""
