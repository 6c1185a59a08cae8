"""The client needs grpcio and protobuf alone, and is typed."""

import subprocess
import sys
from pathlib import Path

import pytest

import outrider

pytestmark = pytest.mark.process

PACKAGE = Path(outrider.__file__).parent

# typing_extensions comes with grpcio; the grpc_* packages are imported by grpc itself, and only where installed.
ONLY_THE_DEPENDENCIES = """
import sys
from importlib.abc import MetaPathFinder

class Gate(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        top = name.partition(".")[0]
        is_dependency = name == "google" or name.startswith(("google.protobuf", "google._upb")) or top in ALLOWED
        if not is_dependency and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"{name} is not a dependency of the client", name=name)

ALLOWED = {"outrider", "grpc", "typing_extensions", "cython_runtime"}
sys.meta_path.insert(0, Gate())
import outrider
from outrider.v1 import common_pb2, errors_pb2, generation_pb2, generation_pb2_grpc
client = outrider.Client("127.0.0.1:1", max_retries=0)
try:
    client.generate("x")
except outrider.Unavailable:
    print("unavailable")
client.close()
assert "services" not in sys.modules
"""


def test_needs_grpcio_and_protobuf_alone() -> None:
    code = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n{ONLY_THE_DEPENDENCIES}"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "unavailable\n"), done.stderr


def test_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
    assert all(hasattr(outrider, name) for name in outrider.__all__)
