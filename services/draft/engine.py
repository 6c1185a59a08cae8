"""DraftEngine: a loaded draft model and its engine thread; any thread may call its methods."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType

from services.draft.draft_metrics import DraftMetrics
from services.draft.drafter import Drafter, DrafterConfig
from services.draft.link import DraftLink
from services.draft.multi_step_runner import MultiStepRunner
from services.draft.sequence_traces import SequenceTraces
from services.draft_protocol.messages import DraftLoad
from services.draft_protocol.protocol import MAX_WINDOW
from services.engine.cache.block_manager import BlockManager
from services.engine.config import CUDA, MOST_PREDICTIONS, EngineConfig
from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.decoder.warm_up import record_passes
from services.engine.head_shortlist import HeadShortlist, widen_head
from services.engine.loaded_model import LoadedModel
from services.engine.loop import Answer, EngineLoop, Pulse
from services.engine.sampling_params import SamplingParams

_RUN_SECONDS = 0.004  # short compared with a pass of the target that a draft is for


class DraftEngine:
    """Owns the model, its KV cache and the engine thread; made by `open`, ended by `close`."""

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig,
        *,
        max_run: int,
        on_failure: Callable[[], None],
        traces: SequenceTraces | None = None,
        head_shortlist: int | None = None,
    ) -> None:
        """`max_run` is the number of tokens predicted between two looks at the targets' messages.

        `head_shortlist` is the number of tokens to predict among, None for all; raises ConfigError if it is out of
        range.
        """
        self.model, self.config = model, config
        self.adapters = model.adapters
        self._max_run, self._traces, self._head_shortlist = max_run, traces, head_shortlist
        shortlist = None if head_shortlist is None else _new_shortlist(model, head_shortlist)
        if shortlist is not None:  # the passes recorded before were with the whole head
            max_blocks = config.blocks_each(model.checkpoint.config)
            record_passes(model.decoder, model.device, max_rows=config.max_rows, max_blocks=max_blocks)
        runner = MultiStepRunner(
            model.decoder,
            model.sampler,
            max_rows=config.max_rows,
            max_sequences=config.max_rows,
            max_blocks=model.max_blocks,
            shortlist=shortlist,
        )
        self._drafter = Drafter(_limits(model, config, max_run), runner, model.blocks, traces)
        self._loop = EngineLoop(self._drafter, on_failure=on_failure)
        self.grammars = model.new_grammar_process()

    @classmethod
    def open(
        cls,
        config: EngineConfig,
        progress: LoadingProgress,
        *,
        loras: Mapping[str, Path] = MappingProxyType({}),
        max_run: int,
        on_failure: Callable[[], None],
        traces: SequenceTraces | None = None,
        head_shortlist: int | None = None,
    ) -> "DraftEngine":
        """Load the configured model, which takes long, and start the engine thread.

        `loras` are the folders of its adapters by their names. Raises CheckpointError and ConfigError.
        """
        model = LoadedModel.load(config, progress, loras=loras, needs_digest=False)
        engine = cls(
            model,
            config,
            max_run=max_run,
            on_failure=on_failure,
            traces=traces,
            head_shortlist=head_shortlist,
        )
        engine._loop.start()
        return engine

    def renewed(self, on_failure: Callable[[], None]) -> "DraftEngine":
        """Close this engine, which has failed, and return another one on the same weights.

        Raises the first pass's error if the device can no longer compute.
        """
        self.close()
        widen_head(self.model.decoder)  # the first pass looks at all logits
        model = self.model.renewed(self.config)
        engine = DraftEngine(
            model,
            self.config,
            max_run=self._max_run,
            on_failure=on_failure,
            traces=self._traces,
            head_shortlist=self._head_shortlist,
        )
        engine._loop.start()
        return engine

    @property
    def blocks(self) -> BlockManager:
        """The block manager of the KV cache."""
        return self.model.blocks

    def own_params(self, params: SamplingParams) -> SamplingParams:
        """A target's sampling parameters without those that the device does not support.

        Without them fewer predictions are right, but the target's output is the same.
        """
        return params.without_feedback if self.model.device.name.startswith(CUDA) else params

    def ask(self, question: Callable[[], Answer]) -> "Future[Answer]":
        """Run a function on the engine thread between two steps."""
        return self._loop.ask(question)

    def forget_cache(self) -> "Future[int]":
        """Empty the prefix cache, and return how many blocks could be found in it."""
        return self.ask(self.blocks.forget)

    @property
    def pulse(self) -> Pulse:
        """The engine thread's signs of life."""
        return self._loop.pulse

    def load(self, target: DraftLink) -> DraftLoad:
        """The draft's load apart from a target's own sequences."""
        return self._drafter.load(target)

    def new_metrics(self, model_name: str) -> DraftMetrics:
        """The metrics of this engine."""
        return DraftMetrics(self._drafter.counts, self._drafter.links, self.model.blocks, model_name=model_name)

    def join(self, link: DraftLink) -> None:
        """Begin to serve a link."""
        self._loop.post(lambda: self._drafter.join(link))

    def leave(self, link: DraftLink) -> None:
        """Forget a link and free its sequences' blocks."""
        self._loop.post(lambda: self._drafter.leave(link))

    def post(self, *commands: Callable[[Drafter], None]) -> None:
        """Run the commands of one message of a target, all of them before the next step."""
        self._loop.post(lambda: self._hear(commands))

    def _hear(self, commands: Iterable[Callable[[Drafter], None]]) -> None:
        for command in commands:
            command(self._drafter)

    async def heard(self) -> None:
        """Return once the engine thread has run all commands posted before."""
        loop, is_heard = asyncio.get_running_loop(), asyncio.Event()

        def answer() -> None:
            loop.call_soon_threadsafe(is_heard.set)

        self._loop.post(answer)
        await is_heard.wait()

    def close(self) -> None:
        """Stop the engine thread."""
        self.grammars.close()
        self._loop.stop()


def _new_shortlist(model: LoadedModel, size: int) -> HeadShortlist:
    return HeadShortlist(model.decoder, model.tokenizer.special_ids, model.checkpoint.config.vocab_size, size)


def _limits(model: LoadedModel, config: EngineConfig, max_run: int) -> DrafterConfig:
    return DrafterConfig(
        context_length=model.context_length,
        vocab_size=model.checkpoint.config.vocab_size,
        max_rows=config.max_rows,
        prefill_chunk=config.resolve_prefill_chunk(),
        max_run=max_run,
        run_seconds=_RUN_SECONDS,
        max_window=MOST_PREDICTIONS if model.blocks.has_states else MAX_WINDOW,  # what a state's ring has room for
    )
