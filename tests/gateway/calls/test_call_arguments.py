"""Arguments of a call are read as a client reads them, with all their numbers, and as far as they go."""

import pytest

from services.gateway.generation.call_arguments import are_whole, read_arguments
from services.gateway.generation.encoded_list import encode

LONG = "1" * 5000


@pytest.mark.parametrize(
    ("text", "encoded", "is_whole"),
    [
        ('{"a": [1, 2.5]}', '{"a":[1,2.5]}', True),
        (f'{{"a": {LONG}, "b": 1e400}}', f'{{"a":{LONG},"b":1e400}}', True),
        ('{"a": "\\ud800"}', '{"a":"\\ud800"}', True),
        ('{"a": [1, {"b": "c', '{"a":[1,{}]}', False),
        ('{"a": "b", "c', '{"a":"b"}', False),
        ('{"a": 1e400, "b', '{"a":null}', False),
        (f'{{"a": {LONG}, "b', "{}", False),
        ('{"a": "\\ud800", "b', "{}", False),
        ('{"a": ' * 100_000, "{}", False),
        ("", "{}", False),
    ],
)
def test_arguments_are_read_as_far_as_they_go(text: str, encoded: str, is_whole: bool):
    assert encode(read_arguments(text), is_ascii=True).decode() == encoded
    assert are_whole(text) == is_whole
