"""TargetEngine: a loaded target model and its engine thread; any thread may call its methods."""

import asyncio
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from services.engine.cache.block_manager import BlockManager
from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.config import MOST_EXPECTED, MOST_PREDICTIONS, EngineConfig
from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.decoder.native import Batch
from services.engine.events import Failed
from services.engine.grammar.process import GrammarProcess
from services.engine.grammar.trial import GrammarTrial
from services.engine.loaded_model import LoadedModel
from services.engine.loop import Answer, EngineLoop, Pulse, PulseMemory
from services.engine.lora.adapter import Adapter
from services.engine.lora.adapter_loader import AdapterLoader
from services.engine.lora.adapter_set import AdapterSet
from services.engine.open_offload import open_offload
from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from services.target.generation.deferred_calls import DeferredCalls
from services.target.generation.deliveries import Deliveries
from services.target.generation.engine_facts import EngineFacts
from services.target.generation.engine_figures import EngineFigures, EngineLoad, OffloadFigures, SequenceFigures
from services.target.generation.fingerprint import fingerprint_of
from services.target.generation.journalled_step import with_journal
from services.target.generation.model_runner import ModelRunner
from services.target.generation.sampler import Sampler
from services.target.generation.step import TargetStep
from services.target.output.output_pipeline import OutputPipeline
from services.target.scheduling.limits import SchedulerConfig
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.event_sink import EventSink
from services.target.sequence.generation import Generation
from services.target.sequence.sequence import Sequence
from services.target.sequence.token_stream import TokenStream
from services.target.speculation.attached.attached_predictor import AttachedPredictor
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.predictor import Predictor
from services.target.speculation.rehearsal import rehearsal_request
from services.target.speculation.speculation import Speculation

_MOST_PREPARED = 2  # requests at once whose grammars are compiled or whose received tokens are replayed


def _same(predictors: Seq[Predictor]) -> Seq[Predictor]:
    return predictors


class Order(NamedTuple):
    """A generation to begin: the number by which other threads refer to it, and where its events go."""

    number: int
    request: Request
    events: EventSink


class TargetEngine:
    """Owns the model, its KV cache and the engine thread; made by `open`, ended by `close`."""

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig,
        *,
        make_predictors: Callable[[Seq[Predictor]], Seq[Predictor]] = _same,
        policy: PolicyConfig | None = None,
        deliveries: Deliveries | None = None,
        pulse_memory: PulseMemory | None = None,
        on_failure: Callable[[], None],
    ) -> None:
        """`make_predictors` gets those of the model, and returns all. `deliveries` are those of orders; without them
        generations are submitted, and read in this process. The pulse is written to `pulse_memory`.

        Raises ConfigError for an offload that is not possible.
        """
        self._policy = policy or PolicyConfig()
        self._rehearsal_seeds, self._numbers = count(), count()
        self.config = config
        fingerprint = fingerprint_of(model, config)
        self.offload = open_offload(config, model, str(fingerprint))
        self.model = model = model.with_offload(config, self.offload) if self.offload else model
        self.facts = EngineFacts.of(model, config, fingerprint)
        self.scheduler = Scheduler(_limits(config), model.blocks)
        attached = _attached(model, config, self._policy)
        runner = ModelRunner(
            model.decoder,
            max_rows=config.max_rows,
            max_sequences=config.max_sequences,
            max_blocks=model.max_blocks,
            returns_early=model.device.memory is not None,
            on_pass=attached[0].see if attached else None,
        )
        self.speculation = Speculation(
            make_predictors(attached),
            vocab_size=model.checkpoint.config.vocab_size,
            config=self._policy,
            padded=model.decoder.padded_rows,
            most_expected=MOST_PREDICTIONS if model.blocks.has_states else MOST_EXPECTED,
        )
        self._calls = DeferredCalls()
        self._deliveries = deliveries or self._calls
        self._step = TargetStep(self.scheduler, runner, Sampler(model.sampler), self.speculation, self._deliveries)
        worker, self.journal = with_journal(self._step, config, model.blocks, self.offload, self.ask)
        expiry = self.scheduler.next_expiry
        self._loop = EngineLoop(worker, on_failure=on_failure, next_expiry=expiry, pulse_memory=pulse_memory)
        self._threads = ThreadPoolExecutor(_MOST_PREPARED, "prepare")
        self._sequences: dict[int, Sequence] = {}  # by their numbers; for the engine thread
        self.unload_adapter = _unloader(model.adapter_loader, self._loop)
        self.adapters = AdapterSet(model.adapters, self.unload_adapter)

    @classmethod
    def open(
        cls,
        config: EngineConfig,
        *,
        loras: Mapping[str, Path] | None = None,
        make_predictors: Callable[[Seq[Predictor]], Seq[Predictor]] = _same,
        policy: PolicyConfig | None = None,
        deliveries: Deliveries | None = None,
        pulse_memory: PulseMemory | None = None,
        progress: LoadingProgress | None = None,
        try_out: Callable[[], None] = lambda: None,
        on_failure: Callable[[], None],
    ) -> "TargetEngine":
        """Load the configured model, which takes long, and start the engine thread.

        `loras` are the folders of its adapters by their names; `try_out` is called while the weights are read. Raises
        CheckpointError and ConfigError.
        """
        model = LoadedModel.load(config, progress, try_out, loras)
        engine = cls(
            model,
            config,
            make_predictors=make_predictors,
            policy=policy,
            deliveries=deliveries,
            pulse_memory=pulse_memory,
            on_failure=on_failure,
        )
        engine._loop.start()
        return engine

    @property
    def blocks(self) -> BlockManager:
        """The block manager of the KV cache."""
        return self.model.blocks

    @property
    def checkpoint(self) -> Checkpoint:
        """The model's files."""
        return self.model.checkpoint

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self.model.tokenizer

    def new_grammar_process(self) -> GrammarProcess:
        """Return a new process that tries grammars for this model."""
        return self.model.new_grammar_process()

    async def submit(self, requests: Seq[Request]) -> list[Generation]:
        """Begin the generations of requests that share a prompt, to be read on the running event loop.

        Raises ContinuationError if received tokens are not the generation's.
        """
        generations, orders = [], []
        for index, request in enumerate(requests):
            stream = TokenStream(
                capacity=self.facts.capacity(request.output),
                on_drained=self._loop.wake,
                wake=self._calls.add,
                take_turn=self._calls.take_turn,
            )
            orders.append(Order(next(self._numbers), request, stream))
            generations.append(Generation(orders[-1].number, request, stream, has_own_prompt=index == 0))
        self.start(await self.prepare_slowly(orders) if requests[0].begins_slowly else self.prepare(orders))
        return generations

    async def prepare_slowly(self, orders: Seq[Order]) -> dict[int, OutputPipeline]:
        """As `prepare`, on one of a few threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.prepare, orders)

    def prepare(self, orders: Seq[Order]) -> dict[int, OutputPipeline]:
        """The output pipelines, by their numbers, of requests that share a prompt, which the first one computes.

        A grammar is compiled and received tokens are replayed, which may take long. Raises ContinuationError if these
        are not the generation's.
        """
        grammar = orders[0].request.grammar
        if isinstance(grammar, GrammarTrial):
            compiled = self.model.grammars.compile_again(grammar)
            orders = [each._replace(request=replace(each.request, grammar=compiled)) for each in orders]
        outputs: dict[int, OutputPipeline] = {}
        first: Sequence | None = None
        for order in orders:
            output = outputs[order.number] = self._new_output(order.request, order.events, first)
            first = first or output.sequence
        return outputs

    def start(self, outputs: Mapping[int, OutputPipeline]) -> None:
        """Begin the generations that were prepared."""
        self._loop.post(lambda: self._add(outputs))

    def _add(self, outputs: Mapping[int, OutputPipeline]) -> None:
        first = next(iter(outputs.values()))
        if first.sequence.is_finished:  # by its received tokens
            first.write()
            return
        for number, output in outputs.items():
            self._sequences[number] = output.sequence
            self._step.add(output)

    async def rehearse(self) -> bool:
        """Generate a text for no client, to measure the predictors; False if another request prevented or ended it."""
        config, context_length = self._policy, self.facts.context_length
        seed = next(self._rehearsal_seeds)
        request = rehearsal_request(self.tokenizer, config, seed=seed, context_length=context_length)
        stream = TokenStream(capacity=self.facts.capacity(request.output), on_drained=self._loop.wake, wake=_wake)
        output = self._new_output(request, stream, None)
        self._loop.post(lambda: self._step.rehearse(output))
        try:
            return not any([isinstance(event, Failed) async for event in stream])
        finally:
            self._loop.post(lambda: self._step.drop(output.sequence))

    def _new_output(self, request: Request, events: EventSink, first_sample: Sequence | None) -> OutputPipeline:
        context_length = self.facts.context_length
        sequence = Sequence(request, events, context_length=context_length, first_sample=first_sample)
        return OutputPipeline(sequence, self.tokenizer)

    def cancel(self, number: int) -> None:
        """Drop a generation after the cancellation of its call; its blocks are free before the next step, unless it
        pins them.
        """
        self._loop.post(lambda: self._drop(number))

    def _drop(self, number: int) -> None:
        if (sequence := self._sequences.get(number)) is not None:
            self._step.drop(sequence)
            if not sequence.request.pins:
                del self._sequences[number]

    def hold(self, number: int) -> None:
        """Keep the blocks that an ended generation pins findable in the prefix cache, even after it was cleared."""
        self._loop.post(lambda: self._keep(number))

    def _keep(self, number: int) -> None:
        if (pinned := self._sequences.get(number)) is not None:
            self.blocks.keep(pinned.text, pinned.text.num_computed)

    def let_go(self, number: int) -> None:
        """Release the blocks that a generation pins, whether it has ended or not."""
        self._loop.post(lambda: self._let_go(number))

    def _let_go(self, number: int) -> None:
        if (pinned := self._sequences.pop(number, None)) is not None:  # else it was never begun
            self._step.drop(pinned)
            self.blocks.release(pinned.text)

    def abandon(self, message: str) -> None:
        """End all generations with an error after which a client may continue on another server."""
        self._loop.post(lambda: self._step.abandon(message))

    def abort(self, number: int, message: str) -> None:
        """End a generation for good after its last token, with an error for its reader."""
        self._loop.post(lambda: self._abort(number, message))

    def _abort(self, number: int, message: str) -> None:
        if (sequence := self._sequences.get(number)) is not None:
            self._step.abort(sequence, message)

    def load_adapter(self, name: str, folder: Path) -> Adapter:
        """Load an adapter, which may take long; raises CheckpointError as `AdapterLoader.load`."""
        return self.model.adapter_loader.load(name, folder)

    def add_predictor(self, predictor: Predictor) -> None:
        """Add a predictor; for the engine thread."""
        self.speculation.add(predictor, self.scheduler.sequences)

    def remove_predictor(self, predictor: Predictor) -> None:
        """Remove a predictor; for the engine thread."""
        self.speculation.remove(predictor, self.scheduler.sequences)

    def ask(self, question: Callable[[], Answer]) -> "Future[Answer]":
        """Run a function on the engine thread between two steps."""
        return self._loop.ask(question)

    def forget_cache(self) -> "Future[int]":
        """Empty the prefix cache, and return how many blocks could be found in it."""
        return self.ask(self.blocks.forget)

    def wake(self) -> None:
        """Look for work again, after a reader has taken tokens."""
        self._loop.wake()

    @property
    def pulse(self) -> Pulse:
        """The engine thread's signs of life."""
        return self._loop.pulse

    @property
    def load(self) -> EngineLoad:
        """What it has to do now."""
        used = self.blocks.num_blocks - self.blocks.num_free
        return EngineLoad(len(self.scheduler.running), len(self.scheduler.waiting), used)

    def figures(self) -> EngineFigures:
        """What it has counted so far."""
        scheduler, speculation = self.scheduler, self.speculation
        return EngineFigures(
            num_tokens=self._step.num_tokens,
            num_preemptions=scheduler.num_preemptions,
            steps={str(limit): count for limit, count in scheduler.num_steps.items()},
            rows={"tokens": scheduler.num_rows, "predictions": scheduler.num_prediction_rows},
            step_seconds=asdict(self._step.seconds),
            blocks=self.blocks.num_by_state,
            findable_blocks=self.blocks.num_findable,
            stateless_tokens=self.blocks.num_stateless,
            offload=OffloadFigures.of(self.offload),
            speculation=speculation.totals.total(),
            unpredicted=speculation.totals.unpredicted.copy(),
            decisions=speculation.decisions(),
            speculation_seconds=replace(speculation.seconds),
        )

    def sequences(self) -> dict[int, SequenceFigures]:
        """How far the generations are, by their numbers."""
        running = {*self.scheduler.running}
        return {
            number: SequenceFigures(
                sequence.text.num_computed, sequence.num_generated, len(sequence.text.blocks), sequence in running
            )
            for number, sequence in self._sequences.copy().items()
        }

    def close(self) -> None:
        """Stop the engine thread; streams that still have a reader end with an error."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        try:
            self._loop.stop()
            if self.offload is not None:
                self.offload.store.close()
        finally:
            self._deliveries.close()
            if self._deliveries is not self._calls:
                self._calls.close()


def _wake(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop is closed, so that nobody reads any more
        loop.call_soon_threadsafe(call)


def _attached(model: LoadedModel, config: EngineConfig, policy: PolicyConfig) -> list[AttachedPredictor]:
    """The predictor of the drafter that is attached to the model, if one is."""
    if model.drafter is None:
        return []
    batch = Batch(max_rows=config.max_rows, max_sequences=config.max_sequences, max_blocks=model.max_blocks)
    return [AttachedPredictor(model.drafter, model.sampler, batch, model.blocks, policy)]


def _limits(config: EngineConfig) -> SchedulerConfig:
    return SchedulerConfig(
        max_rows=config.max_rows,
        prefill_chunk=config.resolve_prefill_chunk(),
        max_sequences=config.max_sequences,
        prompt_slowdown=config.prompt_slowdown,
    )


def _unloader(loader: AdapterLoader, loop: EngineLoop) -> Callable[[Adapter], None]:
    """A function that unloads an adapter between two steps; it does not keep the engine in memory."""
    return lambda adapter: loop.post(lambda: loader.unload(adapter))
