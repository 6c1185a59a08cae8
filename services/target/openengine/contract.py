"""Contract: the names of OpenEngine's services and their revision, and how servicers are registered."""

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc import aio

from services.target.openengine.v1 import openengine_pb2

_SERVICES = openengine_pb2.DESCRIPTOR.services_by_name
INFERENCE: ServiceDescriptor = _SERVICES["Inference"]
CONTROL: ServiceDescriptor = _SERVICES["Control"]
SERVICES = [INFERENCE.full_name, CONTROL.full_name]
REVISION = 1
RELEASE = "2f92780dda1ecf3013868c6b348d13dec5d16322"
"""The commit of ai-dynamo/openengine whose protos these are."""


def register(server: aio.Server, service: ServiceDescriptor, servicer: object) -> None:
    """Register a servicer's methods, which have the names of the service's, with a server."""
    handlers = {}
    for method in service.methods:
        new: Callable[..., grpc.RpcMethodHandler[Any, Any]] = (
            grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        )
        handlers[method.name] = new(
            getattr(servicer, method.name),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
    server.add_registered_method_handlers(service.full_name, handlers)
