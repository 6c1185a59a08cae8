"""What a request takes from its model where it says nothing belongs to what its bytes depend on."""

from pathlib import Path

import pytest

import outrider
from tests.harness.models.checkpoints import Kind, copy_of, edit_json, random_checkpoint
from tests.harness.servers.server import target_server

RECOMMENDED = [{"temperature": 0.3}, {"suppress_tokens": [7]}, {"forced_eos_token_id": 1}, {"eos_token_id": [1, 9]}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = copy_of(random_checkpoint(Kind.LLAMA), tmp_path)
    (copy / "generation_config.json").write_text("{}")
    return copy


def test_servers_whose_models_recommend_other_things_do_not_continue_each_others_answers(folder: Path) -> None:
    found = set()
    for changes in ({}, *RECOMMENDED):
        (folder / "generation_config.json").write_text("{}")
        edit_json(folder / "generation_config.json", **changes)
        with target_server(folder) as target, outrider.Client(target.address) as client:
            found.add(client.model_info().fingerprint)
    assert len(found) == 1 + len(RECOMMENDED)
