"""deploy/ray forwards every call of the service; read from its text, so that Ray need not be installed."""

import ast

from outrider.v1 import generation_pb2
from tests.e2e.harness.models import ROOT


def test_every_call_of_the_service_is_forwarded() -> None:
    module = ast.parse((ROOT / "deploy/ray/outrider_ray.py").read_text())
    (target,) = (node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "Target")
    assigned = {
        ast.unparse(node.targets[0]): ast.unparse(node.value) for node in target.body if isinstance(node, ast.Assign)
    }
    service = generation_pb2.DESCRIPTOR.services_by_name["GenerationService"]
    for method in service.methods:
        if method.server_streaming:
            assert method.name in {node.name for node in target.body if isinstance(node, ast.AsyncFunctionDef)}
        else:
            assert assigned[method.name] == f"_unary('{method.name}', messages.{method.output_type.name})"
