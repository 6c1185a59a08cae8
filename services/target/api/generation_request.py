"""GenerationRequest: either of the two messages that ask for text, whose fields are the same."""

from outrider.v1 import generation_pb2

GenerationRequest = generation_pb2.StreamGenerateRequest | generation_pb2.GenerateRequest
