"""Lists that are encoded as they grow equal their entries as JSON."""

import json

import pytest

from outrider import Started, Token
from services.gateway.generate.request import GenerateRequest
from services.gateway.generate.writer import GenerateWriter
from services.gateway.generation.encoded_list import EncodedList, encode
from services.gateway.generation.head import Head, Ticket
from services.gateway.generation.piece import Piece


def test_encoded_lists_are_equal_to_their_json():
    entries = [[], [1, "ä\n"], [{"b": None}], []]
    lists = [EncodedList() for _ in entries]
    for one, each in zip(lists, entries, strict=True):
        one.extend(each[:1])
        one.extend(each[1:])
    told = {"a": lists, "c": "dä", "again": lists[1]}
    plain = {"a": entries, "c": "dä", "again": entries[1]}
    assert encode(told, is_ascii=True) == json.dumps(plain, separators=(",", ":")).encode()
    assert json.loads(encode(told, is_ascii=False)) == plain
    assert encode("dä", is_ascii=False) == '"dä"'.encode()


def test_values_that_json_lacks_are_an_error():
    with pytest.raises(ValueError, match="JSON"):
        EncodedList().extend([float("inf")])


def test_tokens_are_encoded_when_they_come():
    writer = GenerateWriter(
        GenerateRequest(prompt="a"), Head(Ticket("n", 0, 1), (Started("n", 1, (), 1, 0, "m", "f"),), 1)
    )
    token = Token(7, b"a", "a", None, None, (), False, None, None, None, None)
    writer.keep(Piece(0, (7,), (token,)))
    writer.keep(Piece(0, (7,), (token,)))
    assert [one["id"] for one in json.loads(bytes(writer._kept["tokens"]))] == [7, 7]
