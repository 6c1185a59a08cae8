"""GenerationRequest: either of the two messages that request text, which have the same fields."""

from outrider.v1 import generation_pb2

GenerationRequest = generation_pb2.StreamGenerateRequest | generation_pb2.GenerateRequest
