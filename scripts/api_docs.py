"""Write docs/use/api.md from the comments of the protos: `python scripts/api_docs.py [FILE]` (needs grpcio-tools)."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)

ROOT = Path(__file__).parents[1]
FILES = ("generation.proto", "common.proto", "errors.proto", "admin.proto")
_HEAD = """# The API

Written by `make protos` from the comments in [protos/outrider/v1](../../protos/outrider/v1): what the messages mean,
what values are allowed, and what holds where a field is not set. A bad request is answered with INVALID_ARGUMENT and
every bad field at once. The protocol between target and draft is [draft.proto](../../protos/outrider/v1/draft.proto).
"""
_MESSAGES, _ENUMS, _SERVICES = 4, 5, 6  # field numbers of FileDescriptorProto, as paths of comments have them
_FIELDS, _VALUES, _METHODS = 2, 2, 2  # of DescriptorProto, EnumDescriptorProto and ServiceDescriptorProto
_Field = FieldDescriptorProto


def main() -> None:
    """Write the page."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "use" / "api.md"
    sections = [section for name in FILES for section in _sections(_describe(name))]
    out.write_text("\n".join([_HEAD, *sections]))


def _describe(name: str) -> FileDescriptorProto:
    """One proto with its comments."""
    with tempfile.NamedTemporaryFile() as file:
        arguments = ["-I", "protos", "--include_source_info", f"--descriptor_set_out={file.name}"]
        command = [sys.executable, "-m", "grpc_tools.protoc", *arguments, f"protos/outrider/v1/{name}"]
        subprocess.run(command, cwd=ROOT, check=True)
        (described,) = FileDescriptorSet.FromString(Path(file.name).read_bytes()).file
    return described


def _sections(file: FileDescriptorProto) -> Iterator[str]:
    comments = {tuple(place.path): _one_line(place.leading_comments) for place in file.source_code_info.location}
    for index, service in enumerate(file.service):
        yield _service(service, (_SERVICES, index), comments)
    for index, message in enumerate(file.message_type):
        yield _message(message, (_MESSAGES, index), comments)
    for index, enum in enumerate(file.enum_type):
        yield _enum(enum, (_ENUMS, index), comments)


def _service(service: ServiceDescriptorProto, path: tuple[int, ...], comments: dict[tuple[int, ...], str]) -> str:
    rows = [(f"`{method.name}`", _exchange(method), index) for index, method in enumerate(service.method)]
    return _section(service.name, path, comments, ("call", "messages"), _METHODS, rows)


def _message(message: DescriptorProto, path: tuple[int, ...], comments: dict[tuple[int, ...], str]) -> str:
    rows = [(f"`{field.name}`", _type(message, field), index) for index, field in enumerate(message.field)]
    return _section(message.name, path, comments, ("field", "type"), _FIELDS, rows)


def _enum(enum: EnumDescriptorProto, path: tuple[int, ...], comments: dict[tuple[int, ...], str]) -> str:
    rows = [(f"`{value.name}`", str(value.number), index) for index, value in enumerate(enum.value)]
    return _section(enum.name, path, comments, ("value", "number"), _VALUES, rows)


def _section(
    name: str,
    path: tuple[int, ...],
    comments: dict[tuple[int, ...], str],
    columns: tuple[str, str],
    kind: int,
    rows: list[tuple[str, str, int]],
) -> str:
    lines = [f"## {name}", "", comments.get(path, ""), ""]
    if rows:
        lines += [f"| {columns[0]} | {columns[1]} | |", "|---|---|---|"]
        lines += [f"| {first} | {second} | {comments.get((*path, kind, index), '')} |" for first, second, index in rows]
        lines += [""]
    return "\n".join(lines)


def _exchange(method: MethodDescriptorProto) -> str:
    stream = "stream of " if method.server_streaming else ""
    return f"{_link(method.input_type)} → {stream}{_link(method.output_type)}"


def _type(message: DescriptorProto, field: _Field) -> str:
    named = field.type in (_Field.TYPE_MESSAGE, _Field.TYPE_ENUM)
    name = _link(field.type_name) if named else _Field.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.label == _Field.LABEL_REPEATED:
        return f"repeated {name}"
    if field.proto3_optional:
        return f"optional {name}"
    return f"{name}, one of `{message.oneof_decl[field.oneof_index].name}`" if field.HasField("oneof_index") else name


def _link(type_name: str) -> str:
    package, _, name = type_name.rpartition(".")
    return f"[{name}](#{name.lower()})" if package == ".outrider.v1" else name


def _one_line(comment: str) -> str:
    return re.sub(r"\s+", " ", comment).strip().replace("|", r"\|")


if __name__ == "__main__":
    main()
