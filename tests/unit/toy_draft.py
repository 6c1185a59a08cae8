"""A drafter on a toy model, and the messages of its links."""

import math
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from services.draft.alternate import Alternate
from services.draft.drafted_sequence import DraftedSequence
from services.draft.drafter import Drafter, DrafterConfig
from services.draft.link import DraftLink, Quotas
from services.draft.multi_step_runner import ScheduledTokens
from services.draft.vocabulary.identity_translation import IdentityTranslation
from services.draft.vocabulary.vocabularies import translation_along
from services.draft.vocabulary.vocabulary_map import VocabularyMap
from services.draft_protocol.messages import DraftLoad, DraftMessage, Release
from services.engine.cache.block_manager import BlockManager
from services.engine.sampling_params import SamplingParams
from tests.unit.sequences import VOCAB_SIZE
from tests.unit.toy_model import next_token

CONTEXT_LENGTH = 64
PROMPT = [*b"Hello"]


def runner_up(token_id: int) -> int:
    """What is drawn where a token must not be."""
    return (token_id + 1) % VOCAB_SIZE


class ToyRunner:
    """Draws what the toy model draws, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[ScheduledTokens]] = []
        self.num_sure = 1000  # draws of a run before one is unlikely to be right

    def extend(self, batch: list[ScheduledTokens]) -> list[list[int]]:
        self.asked.append(batch)
        return [self._extend(scheduled) for scheduled in batch]

    def _extend(self, scheduled: ScheduledTokens) -> list[int]:
        history = [*scheduled.sequence.tokens]
        end = scheduled.sequence.text.num_computed + scheduled.num_tokens
        assert end == len(history) or not scheduled.num_draws
        assert len(scheduled.sequence.text.blocks) * 4 >= end + max(scheduled.num_draws - 1, 0)
        mask = scheduled.sequence.mask if scheduled.num_draws else None
        num_draws = min(scheduled.num_draws, self.num_sure) if scheduled.least_chance else scheduled.num_draws
        for index in range(num_draws):
            token_id = next_token(history)
            is_allowed = mask is None or index > 0 or mask[0, token_id // 32] >> token_id % 32 & 1
            history.append(token_id if is_allowed else runner_up(token_id))
        return history[len(scheduled.sequence.tokens) :]


class Draft:
    """A drafter on a toy model."""

    def __init__(self, *, num_blocks: int = 64, **limits: float) -> None:
        defaults: dict[str, Any] = {
            "max_rows": 32,
            "prefill_chunk": 16,
            "max_run": 4,
            "max_window": 32,
            "run_seconds": math.inf,
        }
        config = DrafterConfig(context_length=CONTEXT_LENGTH, vocab_size=VOCAB_SIZE, **{**defaults, **limits})
        self.copies: list[tuple[int, int]] = []
        self.blocks = BlockManager(num_blocks=num_blocks, block_size=4, copy_block=self._copy_block)
        self.runner = ToyRunner()
        self.drafter = Drafter(config, self.runner, self.blocks)  # type: ignore[arg-type]

    def join(self, *, max_sequences: int = 8, max_cached_tokens: int = 1000, capacity: int = 1000) -> DraftLink:
        """A link that is served from now on."""
        quotas = Quotas(max_sequences=max_sequences, max_cached_tokens=max_cached_tokens)
        link = DraftLink(quotas, capacity=capacity)
        self.drafter.join(link)
        return link

    def begin(self, link: DraftLink, sequence_id: int = 1, *, window: int = 6, prompt: Iterable[int] = PROMPT) -> None:
        """Open a sequence, commit its prompt and grant a window."""
        prompt = [*prompt]
        self.drafter.open(link, sequence_id, new_sequence(num_prompt=len(prompt)))
        self.drafter.commit(link, sequence_id, 0, prompt)
        self.drafter.window(link, sequence_id, window)

    def run(self) -> None:
        """Step until there is nothing to do."""
        while self.drafter.step():
            pass

    def alternates(self, sequence: DraftedSequence) -> list[Alternate]:
        """Those of a sequence."""
        return self.drafter._alternates.of(sequence)

    def _copy_block(self, source: int, target: int) -> None:
        self.copies.append((source, target))


def new_sequence(
    *, num_prompt: int = len(PROMPT), vocabulary: VocabularyMap | None = None, **sampling: Any
) -> DraftedSequence:
    """A sequence that is drawn greedily unless `sampling` says otherwise."""
    params = SamplingParams(**{"seed": 1, "temperature": 0.0, **sampling})
    translation = IdentityTranslation(VOCAB_SIZE) if vocabulary is None else translation_along(vocabulary, params)
    return DraftedSequence(params, translation, num_prompt=num_prompt, min_tokens=0, masked_ids=[])


def toy_tokens(prompt: Iterable[int], count: int) -> list[int]:
    """What the toy model generates after a prompt."""
    history = [*prompt]
    for _ in range(count):
        history.append(next_token(history))
    return history[-count:]


async def told(link: DraftLink) -> list[DraftMessage]:
    """What the link has to say by now."""
    link._loop.call_soon(link.hang_up)
    return [message async for batch in link.batches() for message in batch if not isinstance(message, DraftLoad)]


async def predicted(link: DraftLink) -> dict[int, list[int]]:
    """The predictions that wait to be sent, by sequence; there may be nothing else."""
    messages = await told(link)
    runs = [message for message in messages if not isinstance(message, Release)]
    assert len(runs) == len(messages)
    runs.sort(key=lambda run: (run.sequence_id, run.position))
    return {
        sequence_id: [token_id for run in group for token_id in run.token_ids]
        for sequence_id, group in groupby(runs, lambda run: run.sequence_id)
    }
