"""The committed stubs and the committed baseline agree with the protos."""

import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.rpc import error_details_pb2, status_pb2

from outrider.v1 import admin_pb2, common_pb2, draft_pb2, errors_pb2, generation_pb2
from services.target.openengine.v1 import openengine_pb2

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
STUBS = (ROOT / "clients/python/outrider/v1", ROOT / "services/target/openengine/v1")


@pytest.mark.skipif(
    find_spec("grpc_tools") is None, reason="NOT CHECKED whether docs/use/api.md is up to date: no grpcio-tools"
)
def test_the_page_on_the_api_is_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/api_docs.py", tmp_path / "api.md"], check=True)
    assert (tmp_path / "api.md").read_text() == (ROOT / "docs/use/api.md").read_text(), "run `make protos`"


@pytest.mark.skipif(
    find_spec("grpc_tools") is None or find_spec("mypy_protobuf") is None,
    reason="NOT CHECKED whether the committed stubs match the protos: grpcio-tools or mypy-protobuf is not installed",
)
def test_stubs_are_up_to_date(tmp_path: Path) -> None:
    subprocess.run(
        [ROOT / "scripts/protos.sh", "stubs", tmp_path],
        env=os.environ | {"PYTHON": sys.executable},
        check=True,
    )
    fresh = {path.name: path.read_text() for path in tmp_path.glob("*/v1/*")}
    committed = {path.name: path.read_text() for stubs in STUBS for path in stubs.glob("*_pb2*.py*")}
    assert fresh.keys() == committed.keys(), "run `make protos`"
    assert [name for name in sorted(fresh) if fresh[name] != committed[name]] == [], "run `make protos`"


@pytest.mark.parametrize(
    "module",
    [admin_pb2, common_pb2, draft_pb2, errors_pb2, generation_pb2, openengine_pb2],
    ids=lambda module: module.DESCRIPTOR.name,
)
def test_baseline_guards_all_that_is_there(module: object) -> None:
    """A message that is missing in the baseline could be broken unnoticed."""
    baseline = FileDescriptorSet.FromString((ROOT / "protos/baseline.binpb").read_bytes())
    current = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(current)
    guarded = next(file for file in baseline.file if file.name == current.name)
    clear_json_names(guarded.message_type)
    assert guarded == current, "run `scripts/protos.sh baseline`"


def clear_json_names(messages: Iterable[DescriptorProto]) -> None:
    """The runtime does not keep them."""
    for message in messages:
        for field in message.field:
            field.ClearField("json_name")
        clear_json_names(message.nested_type)


def shape(field: FieldDescriptor) -> tuple:
    """What makes two fields the same on the wire."""
    return field.name, field.number, field.type, field.is_repeated, field.has_presence


def test_the_two_ways_to_generate_ask_the_same() -> None:
    stream, whole = generation_pb2.StreamGenerateRequest.DESCRIPTOR, generation_pb2.GenerateRequest.DESCRIPTOR
    assert [shape(field) for field in stream.fields] == [shape(field) for field in whole.fields]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (errors_pb2.ErrorStatus.DESCRIPTOR, status_pb2.Status.DESCRIPTOR),
        (errors_pb2.BadRequestDetail.DESCRIPTOR, error_details_pb2.BadRequest.DESCRIPTOR),
    ],
    ids=["Status", "BadRequest"],
)
def test_error_details_are_those_of_google(ours: Descriptor, theirs: Descriptor) -> None:
    known = {field.name: shape(field) for field in theirs.fields}
    assert [shape(field) for field in ours.fields] == [known[field.name] for field in ours.fields]


@pytest.mark.parametrize(
    "message",
    [
        common_pb2.SamplingParameters,
        common_pb2.StopConditions,
        common_pb2.OutputOptions,
        common_pb2.SpeculationPolicy,
        generation_pb2.StreamGenerateRequest,
    ],
    ids=lambda message: message.DESCRIPTOR.name,
)
def test_fields_with_a_default_have_presence(message: type) -> None:
    for field in message.DESCRIPTOR.fields:
        assert field.is_repeated or field.has_presence or field.enum_type is not None, field.full_name
