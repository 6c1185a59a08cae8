"""A GGUF file by its name on the hub, from the download to the first tokens."""

import json
import os
from pathlib import Path

import outrider
from tests.harness.models.checkpoints import Kind
from tests.harness.models.gguf_files import BF16, write_gguf
from tests.harness.models.representable import representable_checkpoint
from tests.harness.processes.warm_commands import warm_process
from tests.hub.hub_server import Repository, hub_server
from tests.hub.listening import address_of
from tests.rpc.harness.commands import SMALL, outrider_run


def test_a_gguf_file_in_parts_is_served_by_its_name(tmp_path: Path) -> None:
    write_gguf(representable_checkpoint(Kind.LLAMA, tmp_path), tmp_path / "tiny.gguf", BF16, tensors_each=20)
    files = {f"bf16/{path.name}": path.read_bytes() for path in sorted(tmp_path.glob("tiny-*.gguf"))}
    assert len(files) > 1
    cache = tmp_path / "cache"
    with hub_server() as hub:
        repository = hub.repositories["org/tiny-GGUF"] = Repository(files | {"tiny-q8_0.gguf": b"", "README.md": b""})
        env = os.environ | hub.settings(cache)
        command = ("target", "--model", "org/tiny-GGUF:tiny.gguf", "--listen", "127.0.0.1:0", *SMALL)
        with (
            warm_process(command, env=env) as process,
            outrider.Client(address_of(process), max_retries=20, max_backoff=0.5) as client,
        ):
            assert client.model_info().name == f"org/tiny-GGUF@{repository.commit}:{min(files)}"
            assert len(client.generate("import os", max_tokens=8, ignore_eos=True).token_ids) == 8
        (model,) = json.loads(outrider_run("models", "--json", env=env).stdout)
    assert (model["name"], model["problem"]) == (f"org/tiny-GGUF:{min(files)}", None)
    assert model["num_bytes"] == sum(map(len, files.values()))
    assert (model["architecture"], round(model["bits_per_weight"])) == ("LlamaForCausalLM", 16)
