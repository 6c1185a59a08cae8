"""Arguments that a model writes as bare text have the types of their schema."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.target.message.argument_types import ArgumentTypes
from services.target.message.schema.kinds import ANYTHING, SchemaKinds
from services.target.message.schema.references import SchemaReferences

STRING, NULL, INTEGER = {"type": "string"}, {"type": "null"}, {"type": "integer"}
ARRAY, OBJECT = {"type": "array"}, {"type": "object"}
DEFINED = {"$defs": {"name": STRING}}


def read(schema: object, text: str) -> object:
    """The value of an argument of the schema."""
    types = ArgumentTypes({"set": {"properties": {"a": schema}, **DEFINED}})
    return json.loads(types.value("set", "a", text))


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"anyOf": [INTEGER, {"const": "auto"}]}, "5", 5),
        ({"anyOf": [INTEGER, {"const": "auto"}]}, "auto", "auto"),
        ({"anyOf": [INTEGER, {"const": "auto"}]}, "[5]", "[5]"),
        ({"anyOf": [INTEGER, {"const": "auto"}]}, '"auto"', "auto"),
        ({"enum": [1, "1.0", None]}, "1", 1),
        ({"enum": [1, "1.0", None]}, "1.0", "1.0"),
        ({"enum": [1, "1.0", None]}, "None", None),
        ({"enum": ["None", None]}, "None", "None"),
        ({"anyOf": [ARRAY, STRING]}, '["a", "b"]', ["a", "b"]),
        ({"anyOf": [ARRAY, STRING]}, "['a', 'b']", ["a", "b"]),
        ({"anyOf": [ARRAY, STRING]}, "[a", "[a"),
        ({"anyOf": [ARRAY, STRING]}, '{"a": 1}', '{"a": 1}'),
        ({"anyOf": [ARRAY, STRING]}, '"[1]"', '"[1]"'),
        ({"anyOf": [OBJECT, STRING]}, '{"a": 1}', {"a": 1}),
        ({"oneOf": [INTEGER, STRING]}, "12", "12"),
        ({"allOf": [{"$ref": "#/$defs/name"}]}, "12", "12"),
        ({"allOf": [{"type": ["string", "integer"]}, INTEGER]}, "12", 12),
        ({"anyOf": [INTEGER, STRING], "type": "integer"}, "12", 12),
        ({"pattern": "^[0-9]+$"}, "12", "12"),
        ({"maxLength": 3}, "[1]", "[1]"),
        ({"anyOf": [STRING, NULL]}, "None", None),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "none", "none"),
        (INTEGER, '"5"', 5),
        (INTEGER, ' "5" ', 5),
        (INTEGER, "many", "many"),
        ({"type": "number"}, "5", 5),
        ({"type": "boolean"}, '"True"', True),
        (ARRAY, "['a', True, None, (1, 2)]", ["a", True, None, [1, 2]]),
        (ARRAY, '"[1]"', [1]),
        (ARRAY, "[" * 1000, "[" * 1000),
        (ARRAY, "{1, 2}", "{1, 2}"),
        (OBJECT, "{'a': 'it''s'}", {"a": "its"}),
        (OBJECT, "{'a': open('b')}", "{'a': open('b')}"),
        ({"enum": [[1], {"a": 2}]}, '\n{"a": 2} ', {"a": 2}),
        (True, '\n{"a": 2} ', {"a": 2}),
        ({}, '"c"', '"c"'),
        ({"type": "unheard of"}, "word", "word"),
    ],
)
def test_bare_text_has_the_type_of_its_schema(schema, text, value):
    assert read(schema, text) == value


def test_numbers_stay_as_they_are_written():
    types = ArgumentTypes({"set": {"properties": {"a": {"type": "number"}}}})
    assert types.value("set", "a", "1e5") == types.value("other", "a", "1e5") == "1e5"


def test_further_arguments_have_the_type_of_their_own_schema():
    types = ArgumentTypes({"set": {"properties": {"a": INTEGER}, "additionalProperties": STRING}})
    assert (types.value("set", "a", "1"), types.value("set", "b", "1")) == ("1", '"1"')


ROOT = {
    "$id": "https://example.com/tools/set.json",
    "$defs": {
        "a/b": STRING,
        "c~d": STRING,
        "e%f g": STRING,
        "named": {"$anchor": "name", **STRING},
        "older": {"$id": "#older", **STRING},
        "dynamic": {"$dynamicAnchor": "dynamic", **STRING},
        "own": {"$id": "own.json", "$defs": {"inner": STRING}, "$ref": "#/$defs/inner"},
    },
    "prefixItems": [INTEGER, STRING],
}


@pytest.mark.parametrize(
    "reference",
    [
        "#/$defs/a~1b",
        "#/%24defs/a~1b",
        "#/$defs/c~0d",
        "#/$defs/e%25f%20g",
        "#/prefixItems/1",
        "#name",
        "#older",
        "#dynamic",
        "set.json#/$defs/a~1b",
        "/tools/set.json#name",
        "https://example.com/tools/set.json#name",
        "own.json",
        "own.json#/$defs/inner",
        "https://example.com/tools/own.json",
    ],
)
def test_a_reference_of_any_legal_spelling_is_followed(reference):
    properties = {"a": {"$ref": reference}, "b": {"$dynamicRef": reference}}
    types = ArgumentTypes({"set": {**ROOT, "properties": properties}})
    assert types.value("set", "a", "12") == types.value("set", "b", "12") == '"12"'


def test_the_arguments_themselves_may_be_a_reference():
    schema = {"$ref": "#/$defs/all", "$defs": {"all": {"properties": {"a": STRING, "b": {"$ref": "#/$defs/all"}}}}}
    types = ArgumentTypes({"set": schema})
    assert (types.value("set", "a", "12"), types.value("set", "b", "{}")) == ('"12"', "{}")


@pytest.mark.parametrize(
    "reference", ["#/nothing", "#nothing", "http://[", "#/prefixItems/x", "#/prefixItems/9", "#/a/$ref/b", 5]
)
def test_a_reference_to_nothing_allows_all(reference):
    schema = {"a": {"$ref": reference}, **ROOT}
    assert SchemaKinds.of(schema["a"], SchemaReferences(schema)) == ANYTHING


@pytest.mark.parametrize("parts", ["anyOf", "allOf"])
def test_a_schema_that_refers_to_itself_allows_all(parts):
    schema = {"a": {"$ref": "#/a"}, "b": {parts: [{"$ref": "#/b"}]}, "c": {"$ref": "#/d"}, "d": {"$ref": "#/c"}}
    assert all(SchemaKinds.of(part, SchemaReferences(schema)) == ANYTHING for part in schema.values())


def test_a_schema_of_many_references_is_walked_once():
    several = [{"$ref": f"#/$defs/{number}"} for number in range(200)]
    schema = {"$defs": {str(number): {"anyOf": several} for number in range(200)}}
    assert SchemaKinds.of({"anyOf": several}, SchemaReferences(schema)) == ANYTHING


def test_a_schema_that_nests_deeply_allows_all():
    schema = STRING
    for _ in range(500):
        schema = {"allOf": [schema]}
    assert SchemaKinds.of(schema, SchemaReferences(schema)) == ANYTHING


KINDS = [
    *({}, STRING, ARRAY, INTEGER, {"enum": ["a", "null"]}, {"pattern": "a"}),
    *({"type": [name, "string"]} for name in ("null", "array", "object", "integer")),
]
BEGINNINGS = st.sampled_from(["", " ", "\n", "a", "n", "null", "None", "[", "{", "1", "-", '"', "tru", "true"])
MORE = st.sampled_from(["", " ", "x", "]", "}", "null", "one", "ull", "e", '"', "1", '"a": 1}'])


@given(st.sampled_from(KINDS), BEGINNINGS, st.lists(MORE, max_size=3).map("".join))
def test_what_is_a_string_by_its_beginning_stays_one(schema, beginning, more):
    types = ArgumentTypes({"set": {"properties": {"a": schema}}})
    if types.is_string("set", "a", beginning):
        assert json.loads(types.value("set", "a", beginning + more)) == beginning + more


@pytest.mark.parametrize(
    ("schema", "beginning"),
    [
        (STRING, ""), (STRING, "[1"), ({"type": ["string", "integer"]}, "1"), ({"type": ["string", "null"]}, "no"),
        ({"type": ["string", "array"]}, "a"), ({}, "a"), ({}, '"'), ({}, "truth"),
    ],
)  # fmt: skip
def test_a_string_is_seen_by_its_beginning(schema, beginning):
    types = ArgumentTypes({"set": {"properties": {"a": schema}}})
    assert types.is_string("set", "a", beginning)
