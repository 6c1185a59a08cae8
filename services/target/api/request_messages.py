"""The messages that request something, by the fields that they share."""

from outrider.v1 import generation_pb2

GenerationRequest = generation_pb2.StreamGenerateRequest | generation_pb2.GenerateRequest
NamedRequest = (
    GenerationRequest | generation_pb2.ScoreRequest | generation_pb2.EmbedRequest | generation_pb2.CreateSessionRequest
)
CachedRequest = GenerationRequest | generation_pb2.ScoreRequest | generation_pb2.EmbedRequest
