"""What other tools have quantised is read as the values that it stands for, and held as it is where blocks fit it."""

import gguf
import numpy as np
import pytest

from services.engine.checkpoint.checkpoint import load_checkpoint
from tests.harness.models.quantised_folders import WAYS, plain_folder, quantised_folder

SIMILAR = {
    *("gptq of all inputs", "gptq with zero points, v2", "gptq of 2 bits", "awq", "int6 packed", "int8 of 64"),
    *("compressed float8", "float8 by outputs"),
}


@pytest.fixture(params=[pytest.param(way, marks=[pytest.mark.exhaustive] * (way in SIMILAR)) for way in WAYS])
def way(request) -> str:
    return request.param


def test_values_are_those_that_the_folder_stands_for(way):
    plain = dict(load_checkpoint(plain_folder(way)).weights())
    found = dict(load_checkpoint(quantised_folder(way)).weights())
    assert found.keys() == plain.keys()
    for name, values in plain.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_held_blocks_stand_for_the_same_values(way):
    checkpoint = load_checkpoint(quantised_folder(way))
    kinds = {name: kind for name, kind in checkpoint.matrices().items() if name.startswith("layers.")}
    assert {*kinds.values()} == {WAYS[way].kind}
    values = dict(checkpoint.weights())
    for name, kind in kinds.items():
        rows = np.concatenate([checkpoint.stored_rows(name, 0, 5), checkpoint.stored_rows(name, 5, len(values[name]))])
        stored = gguf.dequantize(rows, gguf.GGMLQuantizationType[kind])
        np.testing.assert_array_equal(stored, values[name], err_msg=name)


def test_the_digest_is_of_the_values_and_the_way_to_hold_them():
    digests = {way: load_checkpoint(quantised_folder(way)).weights_digest() for way in ("gptq", "gptq v2", "awq")}
    assert digests["gptq"] == digests["gptq v2"] != digests["awq"]
