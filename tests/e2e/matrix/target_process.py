"""A target service with a probe, and with scripted predictions or a draft: what `ServerProcess` starts."""

import asyncio
import functools
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.config import PROMPT_SLOWDOWN, EngineConfig
from services.engine.hub.fetch import fetch
from services.service.engine_host import OnFailure
from services.service.server_config import ServerConfig
from services.target.engines.model_setup import ModelSetup
from services.target.generation.engine import TargetEngine
from services.target.generation.engine_interface import Engine
from services.target.server import TargetServer
from services.target.speculation.link.remote_predictor import RemotePredictor
from tests.e2e.harness.models import folder, head_folder
from tests.e2e.matrix.cells import ATTACHED, SCRIPTED, Setup
from tests.e2e.matrix.predictions import ScriptedPredictor, Scripts
from tests.e2e.matrix.probe import Probe
from tests.e2e.matrix.processors import engine_settings
from tests.e2e.matrix.store import read_reference
from tests.harness.servers.server import own_drafts

_CHUNK, _WHOLE = 16, 4096
_RUN_AHEAD, _NUM_ALTERNATES = 8, 3  # as if the draft had cores of its own, which it has not
_FEW_BLOCKS, _MANY_BLOCKS = 10, 112
_STREAM_CAPACITY = 8  # tokens: the engine is never far ahead of the client, so that a kill hits a stream that runs
_SWITCH_INTERVAL = 0.0002


def engine_config(setup: Setup) -> EngineConfig:
    """The settings that a setup stands for."""
    return EngineConfig(
        model=folder(setup.model),
        weights=setup.weights,
        kv=setup.kv,
        threads=setup.threads,
        kv_blocks=_FEW_BLOCKS if setup.blocks == "few" else _MANY_BLOCKS,
        prefill_chunk=_CHUNK if setup.prefill == "chunks" else _WHOLE,
        prompt_slowdown=PROMPT_SLOWDOWN if setup.prefill == "chunks" else math.inf,
        max_rows=_WHOLE,
        max_sequences=16,
        stream_capacity=_STREAM_CAPACITY,
        **engine_settings(setup.isa),
    )


def script_finder(store: Path) -> Any:
    """A function from a request id, which ends in a slash and a kind of predictions, to kind and right tokens.

    Where something is banned, right is first of all what would be said freely.
    """

    @functools.cache
    def find(request_id: str) -> tuple[str, *Scripts] | None:
        name, _, kind = request_id.rpartition("/")
        if kind not in SCRIPTED:
            return None
        names = [name] if kind == "wrong" else [name.replace("-banned-", "-nucleus-"), name]
        references = [read_reference(store, one) for one in dict.fromkeys(names)]
        scripts = [one.token_ids for reference in references if reference is not None for one in reference.samples]
        return (kind, *scripts) if scripts else None

    return find


class WatchedServer(TargetServer):
    """A target whose probe counts from its first request on: one that was waiting comes before all is rehearsed."""

    def __init__(self, probe: Probe, setup: ModelSetup, server: ServerConfig, fronts: int) -> None:
        super().__init__([setup], server, fronts=fronts)
        host = self.models.first._host
        host._open_engine = functools.partial(_watched, probe, host._open_engine)
        for predictor in own_drafts(self.models.first).pool.predictors if self.models.first.drafts else ():
            if isinstance(predictor, RemotePredictor):
                probe.watch_link(predictor)


def _watched(probe: Probe, open_engine: Callable[[OnFailure], Engine], on_failure: OnFailure) -> TargetEngine:
    engine = open_engine(on_failure)
    assert isinstance(engine, TargetEngine)
    probe.watch(engine)
    return engine


def _make_server(setup: Setup, store: Path, probe: Probe, address: str, draft_address: str) -> TargetServer:
    engine, server = engine_config(setup), ServerConfig(listen=address, drain_seconds=0)
    model = ModelSetup(engine=engine, run_ahead=_RUN_AHEAD, num_alternates=_NUM_ALTERNATES, lookup=False)
    if setup.source == "draft":
        return WatchedServer(probe, replace(model, drafts=[draft_address]), server, setup.fronts)
    if setup.source in ATTACHED:
        engine = replace(engine, head=head_folder(setup.model, setup.source), uses_mtp=True)
        return WatchedServer(probe, replace(model, engine=engine), server, setup.fronts)
    vocab_size = load_checkpoint(fetch(engine.model).path).config.vocab_size
    predictor = ScriptedPredictor(script_finder(store), vocab_size=vocab_size)
    return WatchedServer(probe, replace(model, predictor=predictor), server, setup.fronts)


def serve(setup: Setup, store: Path, probe_file: Path, *addresses: str) -> int:
    """Serve until the process is killed, or its engine fails."""
    sys.setswitchinterval(_SWITCH_INTERVAL)

    async def run() -> int:
        server = _make_server(setup, store, Probe(probe_file), *addresses)
        await server.start()
        await server.open()
        return await server.wait_failed()

    return asyncio.run(run())
