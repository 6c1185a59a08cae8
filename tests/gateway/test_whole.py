"""A whole answer is encoded as it is written, so that nobody else's waits at its end."""

import json

import pytest

from outrider import Token
from services.gateway.generate.request import GenerateRequest
from services.gateway.generate.writer import GenerateWriter
from services.gateway.generation.head import Head, Ticket
from services.gateway.generation.piece import Piece
from services.gateway.generation.whole import EncodedList, encode_whole


def test_encoded_lists_are_what_they_are_lists_of():
    entries = [[], [1, "ä\n"], [{"b": None}], []]
    lists = [EncodedList() for _ in entries]
    for one, each in zip(lists, entries, strict=True):
        one.extend(each[:1])
        one.extend(each[1:])
    plain = json.dumps({"a": entries, "c": "d"}, ensure_ascii=False, separators=(",", ":")).encode()
    assert encode_whole({"a": lists, "c": "d"}) == plain


def test_what_json_has_not_is_an_error():
    with pytest.raises(ValueError, match="JSON"):
        EncodedList().extend([float("inf")])


def test_tokens_are_encoded_when_they_come():
    writer = GenerateWriter(GenerateRequest(prompt="a"), Head(Ticket("n", 0, 1), "m", "f", 1, 1, 1))
    token = Token(7, b"a", "a", None, None, (), False, None, None, None, None)
    writer.keep(Piece(0, (7,), (token,)))
    writer.keep(Piece(0, (7,), (token,)))
    assert [one["id"] for one in json.loads(bytes(writer._kept["tokens"]))] == [7, 7]
