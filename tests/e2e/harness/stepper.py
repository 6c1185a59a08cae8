"""Stepper: the target's engine without its thread: one pass at a time, with every free block full of NaN."""

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from services.engine.cache.block_manager import BlockManager
from services.engine.cache.page_store import PageStore
from services.engine.cache.state_checkpoints import StateCheckpoints
from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.config import ring_rows
from services.engine.decoder.model_loader import fill_decoder, new_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch, Decoder, Device, Pass, isas
from services.engine.decoder.native import Sampler as NativeSampler
from services.engine.decoder.native.testing import poison, poison_states
from services.engine.events import Chunk, Event, Finished
from services.engine.loaded_drafter import LoadedDrafter, read_drafter
from services.engine.lora.adapter import NO_ADAPTER, Adapter
from services.engine.lora.adapter_loader import AdapterLoader
from services.engine.open_offload import offload_to
from services.engine.request import (
    OutputOptions,
    Request,
    SpeculationMode,
    SpeculationPolicy,
    StopConditions,
)
from services.engine.sampling_params import SamplingParams
from services.engine.text.tokenizer import Tokenizer
from services.target.generation.deferred_calls import DeferredCalls
from services.target.generation.model_runner import ModelRunner
from services.target.generation.sampler import Sampler
from services.target.generation.step import TargetStep
from services.target.output.output_pipeline import OutputPipeline
from services.target.scheduling.limits import SchedulerConfig
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from services.target.sequence.token_stream import TokenStream
from services.target.speculation.attached.attached_predictor import AttachedPredictor
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.predictor import Predictor
from services.target.speculation.speculation import Speculation
from tests.e2e.harness.models import folder
from tests.e2e.matrix.transcript import Transcript

_MAX_ROWS = 4096
_MAX_SEQUENCES = 16
_MAX_STEPS = 20_000


@dataclass(slots=True)
class Generation:
    """One sequence and its consumer, which reads only when a test calls it."""

    sequence: Sequence
    stream: TokenStream
    events: list[Event] = field(default_factory=list)

    async def read(self) -> list[Event]:
        """Read to the end, which must have been reached."""
        self.events.extend([event async for event in self.stream])
        return self.events

    async def transcript(self) -> Transcript:
        """Read to the end, and return all that must be the same to the byte."""
        return Transcript.of_events(await self.read())

    @property
    def end(self) -> Finished:
        """The last event, once it has been read."""
        end = self.events[-1]
        assert isinstance(end, Finished)
        return end

    def boundaries(self) -> dict[int, str]:
        """The text released so far after so many tokens, wherever a chunk that was read ended."""
        texts, num_tokens, text = {0: ""}, 0, ""
        for event in self.events:
            if isinstance(event, Chunk):
                num_tokens, text = num_tokens + len(event.records), text + event.text
                texts[num_tokens] = text
        return texts


class CountingRunner(ModelRunner):
    """Knows how many tokens it has computed, those of predictions left out, and how many passes it launched early."""

    num_tokens = num_early = 0

    def forward(self, scheduled: Seq[ScheduledRows]) -> Pass:
        """As the runner does."""
        self.num_tokens += sum(rows.num_tokens for rows in scheduled)
        return super().forward(scheduled)

    def forward_next(self, token_ids: Seq[int]) -> Pass:
        """As the runner does."""
        self.num_tokens += len(token_ids)
        self.num_early += 1
        return super().forward_next(token_ids)


class Stepper:
    """Builds the engine's parts as the target does; needs a running event loop. Checks every block after every step."""

    def __init__(
        self,
        model: str | Path,
        *,
        predictors: Seq[Predictor] = (),
        drafter: Path | None = None,
        isa: str | None = None,
        weights: str = "bf16",
        kv: str = "bf16",
        num_blocks: int = 64,
        prefill_chunk: int = _MAX_ROWS,
        stream_capacity: int = 1 << 20,
        loras: Mapping[str, Path] | None = None,
        make_store: Callable[[int], PageStore] | None = None,
        num_checkpoints: int = 8,
        devices: Seq[Device] = (),  # instead of a CPU
        launches_early: bool = False,  # as with a GPU
    ) -> None:
        """`model` and `drafter` may be folders; `make_store` makes what blocks, of so many bytes, are offloaded to."""
        path = model if isinstance(model, Path) else folder(model)
        checkpoint = load_checkpoint(path)
        device, *_ = devices = devices or [Device.cpu(isa or isas()[0], 1)]
        self.model, self.tokenizer = str(model), Tokenizer.from_folder(path)
        self.vocab_size = checkpoint.config.vocab_size
        self._decoder = new_decoder(checkpoint, devices, weights=weights, kv=kv, num_blocks=num_blocks)
        fill_decoder(checkpoint, self._decoder, device, weights)
        store = make_store(self._decoder.block_bytes) if make_store else None
        self._drafter, sampler = None, NativeSampler(device)
        self.offload = offload_to(store, self._decoder, checkpoint.config) if store else None
        self.blocks = BlockManager(
            num_blocks=num_blocks,
            block_size=BLOCK_SIZE,
            copy_block=self._copy_block,
            offload=self.offload,
            num_slots=_MAX_SEQUENCES if checkpoint.config.has_states else 0,
            checkpoints=self._make_checkpoints(num_checkpoints, checkpoint.config),
        )
        attached: list[AttachedPredictor] = []
        if drafter is not None:
            loaded = _load_drafter(drafter, checkpoint, self._decoder, device, weights, kv)
            self._drafter, attached = loaded.decoder, [_attached(loaded, sampler, self.blocks)]
        limits = SchedulerConfig(max_rows=_MAX_ROWS, prefill_chunk=prefill_chunk, max_sequences=_MAX_SEQUENCES)
        self.scheduler = Scheduler(limits, self.blocks)
        self.most_sequences = self.num_copies = 0
        self._stream_capacity = stream_capacity
        self._adapters = AdapterLoader(checkpoint, self._decoder).load_all(loras or {})
        self.runner = _runner(self._decoder, num_blocks, attached, launches_early)
        speculation = Speculation([*attached, *predictors], vocab_size=self.vocab_size)
        self._step = TargetStep(self.scheduler, self.runner, Sampler(sampler), speculation, DeferredCalls())

    def submit(self, request: Request, first_sample: Sequence | None = None) -> Generation:
        """Begin a generation; raises ValueError where the received tokens go on beyond its end."""
        if request.lora is not None:
            request = replace(request, lora=self._adapters[request.lora.name])
        stream = TokenStream(capacity=self._stream_capacity, on_drained=_nothing)
        context_length = self.blocks.num_blocks * BLOCK_SIZE
        sequence = Sequence(request, stream, context_length=context_length, first_sample=first_sample)
        output = OutputPipeline(sequence, self.tokenizer)
        if sequence.is_finished:
            output.write()
        else:
            self._step.add(output)
        return Generation(sequence, stream)

    def submit_samples(self, request: Request) -> list[Generation]:
        """Begin all samples of a request."""
        first = self.submit(request)
        further = range(1, request.num_samples)
        return [first, *(self.submit(request.sample(index), first.sequence) for index in further)]

    def step(self) -> bool:
        """One pass; False if no sequence has work."""
        poison(self._decoder, self.blocks.empty)
        if self._drafter is not None:
            poison(self._drafter, self.blocks.empty)
        if self.blocks.has_states:
            poison_states(self._decoder, self.blocks.empty_slots)
        did_work = self._step.step()
        self.blocks.check_integrity(text for sequence in self.scheduler.sequences for text in sequence.texts)
        self.most_sequences = max(self.most_sequences, len(self.scheduler.running))
        return did_work

    def run(self) -> None:
        """Step until no sequence has work."""
        for _ in range(_MAX_STEPS):
            if not self.step():
                return
        raise AssertionError(f"there is still work after {_MAX_STEPS} steps")

    def drop(self, generation: Generation) -> None:
        """Cancel a generation."""
        self._step.drop(generation.sequence)

    async def complete(self, request: Request) -> Transcript:
        """Run one request, and everything else there is, to the end."""
        generation = self.submit(request)
        self.run()
        return await generation.transcript()

    async def one_by_one(self, request: Request) -> tuple[Transcript, Generation]:
        """Run one request and read after every step, so that what each of them committed has a chunk of its own."""
        generation = self.submit(request)
        events = aiter(generation.stream)
        while not generation.sequence.is_finished:
            before = generation.sequence.num_generated
            self.step()
            if generation.sequence.num_generated > before:
                while not isinstance(event := await anext(events), Chunk):
                    generation.events.append(event)
                generation.events.append(event)
        generation.events.extend([event async for event in events])
        return Transcript.of_events(generation.events), generation

    def _make_checkpoints(self, count: int, config: ModelConfig) -> StateCheckpoints | None:
        if not config.has_states:
            return None
        num_slots = _MAX_SEQUENCES + count
        self._decoder.allocate_states(num_slots=num_slots, ring_rows=ring_rows(config))
        save = self.offload.save_state if self.offload else None
        return StateCheckpoints(range(_MAX_SEQUENCES, num_slots), self._decoder.copy_state, save)

    def _copy_block(self, source: int, target: int) -> None:
        self.num_copies += 1
        self._decoder.copy_block(source, target)
        if self._drafter is not None:
            self._drafter.copy_block(source, target)


def _load_drafter(
    drafter: Path, checkpoint: Checkpoint, target: Decoder, device: Device, weights: str, kv: str
) -> LoadedDrafter:
    return LoadedDrafter.load(
        read_drafter(drafter, checkpoint.config), checkpoint, target, device, weights=weights, kv=kv
    )


def _attached(drafter: LoadedDrafter, sampler: NativeSampler, blocks: BlockManager) -> AttachedPredictor:
    drafter.decoder.allocate_cache(blocks.num_blocks)
    batch = Batch(max_rows=_MAX_ROWS, max_sequences=_MAX_SEQUENCES, max_blocks=blocks.num_blocks)
    return AttachedPredictor(drafter, sampler, batch, blocks, PolicyConfig())


def _runner(
    decoder: Decoder, num_blocks: int, attached: Seq[AttachedPredictor], launches_early: bool
) -> CountingRunner:
    return CountingRunner(
        decoder,
        max_rows=_MAX_ROWS,
        max_sequences=_MAX_SEQUENCES,
        max_blocks=num_blocks,
        returns_early=launches_early,
        on_pass=attached[0].see if attached else None,
    )


def request(prompt: Seq[int], **fields: Any) -> Request:
    """A request with everything recorded; keyword arguments go where the request keeps the field of that name, and an
    adapter is named: the Stepper has it.
    """
    if lora := fields.pop("lora", ""):
        fields["lora"] = Adapter(lora, digest="", number=NO_ADAPTER)
    parts: dict[str, dict[str, Any]] = {"sampling": {"seed": 1}, "stops": {"max_tokens": 40}, "speculation": {}}
    owners = {
        **dict.fromkeys(SamplingParams.__dataclass_fields__, "sampling"),
        **dict.fromkeys(StopConditions.__dataclass_fields__, "stops"),
    }
    top_level = (
        "healing",
        "grammar",
        "thinking",
        "forced",
        "guidance",
        "received",
        "deadline",
        "request_id",
        "cache",
        "lora",
        "num_samples",
        "num_scored",
        "pooling",
    )
    top = {name: fields.pop(name) for name in top_level if name in fields}
    prompt_logprobs = fields.pop("prompt_logprobs", True)
    if predictions := fields.pop("num_predictions", 0):
        parts["speculation"] = {"mode": SpeculationMode.ALWAYS, "num_predictions": predictions}
    for name, value in fields.items():
        parts[owners[name]][name] = value
    return Request(
        **{"request_id": "test", **top},
        prompt=tuple(prompt),
        sampling=SamplingParams(**parts["sampling"]),
        stops=StopConditions(**parts["stops"]),
        output=OutputOptions(
            records=True,
            logprobs=True,
            num_candidates=4,
            rank=True,
            entropy=True,
            logits=True,
            prompt_logprobs=prompt_logprobs,
        ),
        speculation=SpeculationPolicy(**parts["speculation"]),
    )


def _nothing() -> None:
    pass
