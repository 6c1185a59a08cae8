"""TargetEngine: a loaded target model and its engine thread; any thread may call its methods."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import Future
from contextlib import contextmanager
from importlib.metadata import version
from itertools import count
from pathlib import Path

from services.engine.cache.block_manager import BlockManager
from services.engine.config import EngineConfig
from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.decoder.native import BUILD_ID, NOISE_VERSION
from services.engine.events import Failed
from services.engine.loaded_model import LoadedModel
from services.engine.loop import Answer, EngineLoop, Pulse
from services.engine.lora.adapter import Adapter
from services.engine.open_offload import open_offload
from services.engine.request import OutputOptions, Request
from services.target.generation.deferred_calls import DeferredCalls
from services.target.generation.fingerprint import Fingerprint
from services.target.generation.model_runner import ModelRunner
from services.target.generation.sampler import Sampler
from services.target.generation.step import StepSeconds, TargetStep
from services.target.output.output_pipeline import OutputPipeline
from services.target.scheduling.limits import SchedulerConfig
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from services.target.sequence.token_stream import TokenStream
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.predictor import Predictor
from services.target.speculation.rehearsal import rehearsal_request
from services.target.speculation.speculation import Speculation

_LIBRARIES = ("jinja2", "llguidance", "tokenizers")  # that turn texts into tokens, and tell which tokens are allowed
_MAX_WAITING_LOGITS = 16 << 20  # bytes per stream, not counting those of its last pass


class TargetEngine:
    """Owns the model, its KV cache and the engine thread; made by `open`, ended by `close`."""

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig,
        *,
        predictors: Seq[Predictor] = (),
        policy: PolicyConfig | None = None,
        on_failure: Callable[[], None],
    ) -> None:
        """Raises ConfigError for an offload that is not possible."""
        self._policy = policy or PolicyConfig()
        self._rehearsal_seeds = count()
        self.config = config
        self.adapters = model.adapters
        self.fingerprint = _fingerprint(model, config)
        """Of answers to token ids; conversations add their own part, see `ServedModel`."""
        self.offload = open_offload(config, model, str(self.fingerprint))
        self.model = model = model.with_offload(config, self.offload) if self.offload else model
        self.scheduler = Scheduler(
            SchedulerConfig(
                max_rows=config.max_rows,
                prefill_chunk=config.resolve_prefill_chunk(),
                max_sequences=config.max_sequences,
                prompt_slowdown=config.prompt_slowdown,
            ),
            model.blocks,
        )
        runner = ModelRunner(
            model.decoder,
            max_rows=config.max_rows,
            max_sequences=config.max_sequences,
            max_blocks=model.max_blocks,
        )
        self.speculation = Speculation(
            predictors,
            vocab_size=model.checkpoint.config.vocab_size,
            config=self._policy,
            padded=model.decoder.padded_rows,
        )
        self._deferred_calls = DeferredCalls()
        self._step = TargetStep(self.scheduler, runner, Sampler(model.sampler), self.speculation, self._deferred_calls)
        self._loop = EngineLoop(self._step, on_failure=on_failure, next_expiry=self.scheduler.next_expiry)
        self.grammars = model.new_grammar_process()

    @classmethod
    def open(
        cls,
        config: EngineConfig,
        *,
        loras: Mapping[str, Path] | None = None,
        predictors: Seq[Predictor] = (),
        policy: PolicyConfig | None = None,
        progress: LoadingProgress | None = None,
        try_out: Callable[[], None] = lambda: None,
        on_failure: Callable[[], None],
    ) -> "TargetEngine":
        """Load the configured model, which takes long, and start the engine thread.

        `loras` are the folders of its adapters by their names; `try_out` is called while the weights are read. Raises
        CheckpointError and ConfigError.
        """
        model = LoadedModel.load(config, progress, try_out, loras)
        engine = cls(model, config, predictors=predictors, policy=policy, on_failure=on_failure)
        engine._loop.start()
        return engine

    @property
    def blocks(self) -> BlockManager:
        """The block manager of the KV cache."""
        return self.model.blocks

    @property
    def session_blocks(self) -> int:
        """The most blocks that sequences may pin."""
        return self.config.resolve_session_blocks(self.blocks.num_blocks, self.model.context_length)

    @property
    def most_sessions(self) -> float:
        """The most sessions for which there is memory; infinity where only their blocks count."""
        return self.config.most_sessions(self.model.checkpoint.config)

    @property
    def step_seconds(self) -> StepSeconds:
        """Seconds that all passes took, by part."""
        return self._step.seconds

    def prepare(self, requests: Seq[Request], loop: asyncio.AbstractEventLoop | None = None) -> list[OutputPipeline]:
        """The output pipelines of requests that share a prompt, which the first one computes.

        Received tokens are replayed, which may take long. The streams are read on `loop`, by default the running one.
        Raises ContinuationError if received tokens are not the generation's.
        """
        first = self._make(requests[0], None, loop)
        return [first, *(self._make(request, first.sequence, loop) for request in requests[1:])]

    def submit(self, outputs: Seq[OutputPipeline]) -> list[Sequence]:
        """Begin the generations that were prepared, one for each sample."""
        first = outputs[0]
        if first.sequence.is_finished:
            first.deliver_end()
            self._deferred_calls.flush()
        else:
            self._loop.post(lambda: self._add(outputs))
        return [output.sequence for output in outputs]

    async def rehearse(self) -> bool:
        """Generate a text for no client, to measure the predictors; False if another request prevented or ended it."""
        config, context_length = self._policy, self.model.context_length
        seed = next(self._rehearsal_seeds)
        request = rehearsal_request(self.model.tokenizer, config, seed=seed, context_length=context_length)
        output = self._make(request, None)
        self._loop.post(lambda: self._step.rehearse(output))
        try:
            return not any([isinstance(event, Failed) async for event in output.sequence.stream])
        finally:
            self.cancel(output.sequence)

    def _make(
        self, request: Request, first_sample: Sequence | None, loop: asyncio.AbstractEventLoop | None = None
    ) -> OutputPipeline:
        stream = TokenStream(
            capacity=self._capacity(request.output),
            on_drained=self._loop.wake,
            wake=self._deferred_calls.add,
            take_turn=self._deferred_calls.take_turn,
            loop=loop,
        )
        sequence = Sequence(request, stream, context_length=self.model.context_length, first_sample=first_sample)
        return OutputPipeline(sequence, self.model.tokenizer)

    def _add(self, outputs: Iterable[OutputPipeline]) -> None:
        for output in outputs:
            self._step.add(output)

    def cancel(self, sequence: Sequence) -> None:
        """Drop a sequence after the cancellation of its call; its blocks are free before the next step."""
        self._loop.post(lambda: self._step.drop(sequence))

    def hold(self, pinned: Sequence) -> None:
        """Keep the blocks that an ended sequence pins findable in the prefix cache, even after it was cleared."""
        self._loop.post(lambda: self.blocks.keep(pinned.text, pinned.text.num_computed))

    def let_go(self, pinned: Sequence) -> None:
        """Release the blocks that a sequence pins, whether it has ended or not."""
        self._loop.post(lambda: self._let_go(pinned))

    def _let_go(self, pinned: Sequence) -> None:
        self._step.drop(pinned)
        self.blocks.release(pinned.text)

    def abandon(self, message: str) -> None:
        """End all generations with an error after which a client may continue on another server."""
        self._loop.post(lambda: self._step.abandon(message))

    def abort(self, sequence: Sequence, message: str) -> None:
        """End a generation for good after its last token, with an error for its reader."""
        self._loop.post(lambda: self._step.abort(sequence, message))

    def drop_adapter(self, name: str) -> int:
        """Refuse further requests for an adapter; returns how many still use it. It is unloaded when these end."""
        adapter = self.adapters.drop(name)
        self._forget_unused(adapter)
        return self.adapters.num_users(adapter)

    @contextmanager
    def using(self, adapter: Adapter) -> Iterator[None]:
        """Keep an adapter loaded until this context ends and the sequences that were submitted in it are dropped."""
        self.adapters.use(adapter)
        try:
            yield
        finally:
            self.adapters.leave(adapter)
            self._forget_unused(adapter)

    def _forget_unused(self, adapter: Adapter) -> None:
        if self.adapters.is_unused(adapter):
            self._loop.post(lambda: self.adapters.forget(adapter))

    def add_predictor(self, predictor: Predictor) -> None:
        """Add a predictor; for the engine thread."""
        self.speculation.add(predictor, self.scheduler.sequences)

    def remove_predictor(self, predictor: Predictor) -> None:
        """Remove a predictor; for the engine thread."""
        self.speculation.remove(predictor, self.scheduler.sequences)

    def ask(self, question: Callable[[], Answer]) -> "Future[Answer]":
        """Run a function on the engine thread between two steps."""
        return self._loop.ask(question)

    @property
    def num_tokens(self) -> int:
        """Tokens generated for all requests."""
        return self._step.num_tokens

    @property
    def pulse(self) -> Pulse:
        """The engine thread's signs of life."""
        return self._loop.pulse

    def _capacity(self, output: OutputOptions) -> int:
        """How many tokens may wait for a reader; fewer if each of them has many logits."""
        if not output.logits:
            return self.config.stream_capacity
        logits_bytes = 4 * (len(output.logits_token_ids) or self.model.checkpoint.config.vocab_size)
        return max(1, min(self.config.stream_capacity, _MAX_WAITING_LOGITS // logits_bytes))

    def close(self) -> None:
        """Stop the engine thread; streams that still have a reader end with an error."""
        self.grammars.close()
        try:
            self._loop.stop()
            if self.offload is not None:
                self.offload.store.close()
        finally:
            self._deferred_calls.close()


def _fingerprint(model: LoadedModel, config: EngineConfig) -> Fingerprint:
    return Fingerprint(
        version=version("outrider"),
        build=BUILD_ID,
        device=model.device.name,
        weights_hash=model.weights_digest(),
        tokenizer=model.tokenizer.digest(),
        libraries=" ".join(f"{name} {version(name)}" for name in _LIBRARIES),
        weight_format=model.weights,
        kv_type=config.kv,
        noise_version=NOISE_VERSION,
        recommended=model.checkpoint.recommendations(),
        context_length=model.context_length,
    )
