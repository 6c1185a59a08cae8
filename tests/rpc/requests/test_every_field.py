"""Every field of a request is set to a good and to a bad value: a new field needs examples of both."""

import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from outrider.v1 import generation_pb2
from tests.harness.models.checkpoints import copy_of
from tests.harness.models.infill_checkpoints import add_marks
from tests.harness.models.lora_folders import write_adapter
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness import chat_examples, field_examples, guidance_examples, infill_examples, sampler_examples
from tests.rpc.harness.field_examples import COUNT, HELD, HELD_IDS, Fields, Seen
from tests.rpc.harness.requests import Streamed, as_unary, stream, stream_request, violations
from tests.rpc.requests.test_bad_input import BAD


def leaves(message: Descriptor, path: str = "") -> Iterator[tuple[str, FieldDescriptor]]:
    """The fields that hold values, with their paths; those of well-known types hold one."""
    for field in message.fields:
        inner = field.message_type
        if inner is None or inner.file.package != message.file.package:
            yield path + field.name, field
        else:
            yield from leaves(inner, f"{path}{field.name}.")


GOOD = {
    **field_examples.GOOD,
    **chat_examples.GOOD_CHATS,
    **guidance_examples.GOOD_GUIDANCE,
    **infill_examples.GOOD_INFILLS,
    **sampler_examples.GOOD_SAMPLERS,
}
NEVER_BAD = {**field_examples.NEVER_BAD, **chat_examples.NEVER_BAD_CHATS}
TOLD_BY_PARENT = {
    **field_examples.TOLD_BY_PARENT,
    **chat_examples.CHAT_TOLD_BY_PARENT,
    **infill_examples.INFILL_TOLD_BY_PARENT,
}
BAD_FOR_GENERATE = {**field_examples.BAD_FOR_GENERATE, **infill_examples.BAD_FILES}
FIELDS = dict(leaves(generation_pb2.GenerateRequest.DESCRIPTOR))
STOP = {"max_tokens": COUNT, "ignore_eos": True}


def named(field: str) -> str:
    """The path of a field that a violation names, without the places in lists."""
    return re.sub(r"\[\d+\]", "", field)


def test_every_field_has_a_good_and_a_bad_value() -> None:
    assert FIELDS.keys() == dict(leaves(generation_pb2.StreamGenerateRequest.DESCRIPTOR)).keys()
    assert FIELDS.keys() == GOOD.keys()
    bad = {named(field) for _, field, _ in BAD.values()} | BAD_FOR_GENERATE.keys()
    told = {path for path in FIELDS if TOLD_BY_PARENT.get(path, path) in bad}
    assert told.isdisjoint(NEVER_BAD)
    assert FIELDS.keys() == told | NEVER_BAD.keys()
    assert {path for path, field in FIELDS.items() if field.type == field.TYPE_ENUM} <= told


def is_set(message: Message, path: str) -> bool:
    """Whether a field holds a value, in the first entries of lists."""
    name, _, rest = path.partition(".")
    if name not in {field.name for field, _ in message.ListFields()}:
        return False
    value = getattr(message, name)
    return not rest or is_set(value[0] if message.DESCRIPTOR.fields_by_name[name].is_repeated else value, rest)


@pytest.fixture(scope="module")
def looking_up(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTarget]:
    """A server that predicts from repetitions, and has an adapter."""
    model = copy_of(model, tmp_path_factory.mktemp("marked"))
    add_marks(model)
    loras = {field_examples.LORA: write_adapter(tmp_path_factory.mktemp("lora"), model, seed=1)}
    with target_server(model, lookup=True, parsers={"reasoning_parser": "think"}, loras=loras) as running:
        held = {"name": HELD, "prompt": {"token_ids": {"ids": HELD_IDS}}}
        running.stub.CreateSession(generation_pb2.CreateSessionRequest(**held), timeout=60)
        yield running
        running.assert_all_free()


@pytest.fixture(scope="module")
def plain(looking_up: RunningTarget) -> Streamed:
    """The answer to a request with few fields."""
    return stream(looking_up, stream_request(output={"prompt_token_ids": True}, stop=STOP))


def request_with(fields: Fields) -> generation_pb2.StreamGenerateRequest:
    request = stream_request(stop=STOP)
    request.MergeFrom(generation_pb2.StreamGenerateRequest(**fields))
    return request


@pytest.mark.parametrize("path", GOOD)
def test_a_good_value_has_its_effect(looking_up: RunningTarget, plain: Streamed, path: str) -> None:
    good = GOOD[path]
    request = request_with(good.fields(plain) if callable(good.fields) else good.fields)
    assert is_set(request, path)
    seen = Seen(stream(looking_up, request), looking_up.stub.Generate(as_unary(request), timeout=60), plain)
    assert good.shows(seen)


@pytest.mark.parametrize("path", BAD_FOR_GENERATE)
def test_a_bad_value_is_named(looking_up: RunningTarget, plain: Streamed, path: str) -> None:
    bad = BAD_FOR_GENERATE[path]
    request = request_with(bad(plain) if callable(bad) else bad)
    with pytest.raises(grpc.RpcError) as failure:
        looking_up.stub.Generate(as_unary(request), timeout=60)
    assert path in map(named, violations(failure.value))
