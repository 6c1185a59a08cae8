"""Drafter: runs ahead of every target's sequences, as far as their windows allow."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from services.draft.alternate import Alternate
from services.draft.alternates import Alternates
from services.draft.draft_counts import DraftCounts
from services.draft.drafted_sequence import DraftedSequence
from services.draft.link import DraftLink
from services.draft.multi_step_runner import MultiStepRunner, ScheduledTokens
from services.draft.sequence_traces import SequenceTraces
from services.draft_protocol.messages import AlternatePrediction, DraftLoad, Prediction, Release, ReleaseReason
from services.draft_protocol.protocol import MAX_ALTERNATES
from services.engine.cache.block_manager import BlockManager

_DRAW_WEIGHT = 0.1  # of a new measurement
_UNCACHED = 2  # a link may have this many times as many tokens as it may have cached


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterConfig:
    """Limits of one step."""

    context_length: int
    vocab_size: int
    max_rows: int
    prefill_chunk: int
    max_run: int  # tokens predicted between two looks at the inbox
    run_seconds: float  # limit for these tokens, unless a single one takes longer
    max_window: int  # of a sequence, whatever its target grants


@dataclass(frozen=True, slots=True)
class _Follower:
    link: DraftLink
    sequence_id: int
    sequence: DraftedSequence

    @property
    def is_live(self) -> bool:
        return self.link.sequences.get(self.sequence_id) is self.sequence


class Drafter:
    """All methods except `load` run on the engine thread; the links' messages are handled between two steps.

    A link may use all of the KV cache that the others leave free. When blocks run out, a link that holds no more than
    an equal share takes blocks from the link that holds most. Slots of states go to the sequences that come first.
    """

    def __init__(
        self,
        config: DrafterConfig,
        runner: MultiStepRunner,
        blocks: BlockManager,
        traces: SequenceTraces | None = None,
    ) -> None:
        self._config, self._runner, self._blocks, self._traces = config, runner, blocks, traces
        self.counts = DraftCounts()
        self.links: list[DraftLink] = []
        self._alternates = Alternates(blocks, vocab_size=config.vocab_size, context_length=config.context_length)
        self._draw_seconds = 0.0  # a moving average of the time for one more token of a run

    def join(self, link: DraftLink) -> None:
        """Begin to serve a link."""
        self.links.append(link)

    def load(self, target: DraftLink) -> DraftLoad:
        """The draft's load apart from a target's own sequences, as far as another thread can see it."""
        others = sum(len(link.sequences) for link in tuple(self.links) if link is not target)
        return DraftLoad(others, self._blocks.num_free * self._blocks.block_size)

    def leave(self, link: DraftLink) -> None:
        """Forget a link and free its sequences' blocks; does nothing if it has been forgotten already."""
        if link in self.links:
            self.links.remove(link)
        for sequence_id in list(link.sequences):
            self.close(link, sequence_id)

    def open(self, link: DraftLink, sequence_id: int, sequence: DraftedSequence) -> None:
        """Begin to follow a sequence; refuse it if the link is at its limit, or if no token can be drawn for it."""
        if sequence_id in link.sequences or len(link.sequences) >= link.quotas.max_sequences:
            self.refuse(link, sequence_id)
            return
        try:
            sequence.check(self._config.vocab_size)
        except ValueError:
            self.refuse(link, sequence_id)
        else:
            link.sequences[sequence_id] = sequence
            link.heard(is_followed=True)
            self.counts.sequences += 1
            if self._traces is not None:
                self._traces.begin(sequence)

    def refuse(self, link: DraftLink, sequence_id: int) -> None:
        """Do not follow a sequence, or no longer, and report this to the target."""
        link.heard(is_followed=False)
        self._release(link, sequence_id, ReleaseReason.REFUSED)

    def commit(
        self,
        link: DraftLink,
        sequence_id: int,
        position: int,
        token_ids: list[int],
        *,
        wanted: int = 0,
        least_chance: float = 0.0,
    ) -> None:
        """Take the tokens that the target committed, and predict the `wanted` ones that it waits for.

        Does nothing for a sequence that is not followed (any more).
        """
        if (sequence := self._find(link, sequence_id)) is None:
            return
        if link.num_tokens + len(token_ids) > _UNCACHED * link.quotas.max_cached_tokens:
            self._release(link, sequence_id, ReleaseReason.OUT_OF_MEMORY)
            return
        if position + len(token_ids) > self._config.context_length:
            self._release(link, sequence_id, ReleaseReason.TOO_LONG)
            return
        if not sequence.has_tokens(token_ids):
            self.refuse(link, sequence_id)
            return
        self._alternates.adopt(sequence, position, token_ids)
        try:
            sequence.commit(position, token_ids)
        except ValueError:
            self.refuse(link, sequence_id)
            return
        if wanted or sequence.is_awaited:
            sequence.grant(min(wanted, self._config.max_window), is_awaited=True, least_chance=least_chance)
        self._alternates.prune(sequence)
        self._blocks.restart_if_rewound(sequence.text)
        self._blocks.shrink(sequence.text, sequence.text.num_computed)
        self._keep(sequence)
        if sequence.num_committed > self._config.context_length:  # the text may be more tokens here than at the target
            self._release(link, sequence_id, ReleaseReason.TOO_LONG)
        else:
            self._send_run(link, sequence_id)

    def window(self, link: DraftLink, sequence_id: int, tokens: int, num_alternates: int = 0) -> None:
        """Grant a sequence the target's credit; alternates would need states of their own, and are left out there."""
        num_alternates = 0 if self._blocks.has_states else num_alternates
        if sequence := self._find(link, sequence_id):
            sequence.grant(min(tokens, self._config.max_window), min(num_alternates, MAX_ALTERNATES))
            self._send_run(link, sequence_id)

    def close(self, link: DraftLink, sequence_id: int, reason: str = "") -> None:
        """Forget a sequence and free its blocks; `reason` is why the draft dropped it, if it did."""
        if sequence := link.sequences.pop(sequence_id, None):
            if self._traces is not None:
                self._traces.end(sequence, reason)
            self._alternates.end_all(sequence)
            self._blocks.release(sequence.text)

    def num_blocks(self, link: DraftLink) -> int:
        """KV blocks of all of a link's sequences and alternates."""
        return sum(
            len(sequence.text.blocks) + sum(len(alternate.text.blocks) for alternate in self._alternates.of(sequence))
            for sequence in link.sequences.values()
        )

    def _find(self, link: DraftLink, sequence_id: int) -> DraftedSequence | None:
        sequence = link.sequences.get(sequence_id)
        link.heard(is_followed=sequence is not None)
        return sequence

    def step(self) -> bool:
        """Compute what is pending and predict one run for each sequence with credit; False if idle."""
        if not (followers := self._choose()):
            return False
        began = time.monotonic()
        drawn = self._runner.extend([scheduled for _, scheduled in followers])
        self._observe(time.monotonic() - began, max(map(len, drawn)))
        self.counts.rows += sum(scheduled.num_tokens for _, scheduled in followers)
        for (follower, scheduled), token_ids in zip(followers, drawn, strict=True):
            self._settle(follower, scheduled, token_ids)
        return True

    def abandon(self, message: str) -> None:  # noqa: ARG002 - the links end with the server
        """Forget all links and free their sequences' blocks."""
        for link in list(self.links):
            self.leave(link)

    def _choose(self) -> list[tuple[_Follower, ScheduledTokens]]:
        """The next step's work: first the sequences with the shortest chains, whose targets will wait soonest."""
        budget = self._config.max_rows
        chosen: list[tuple[_Follower, ScheduledTokens]] = []
        for follower in sorted(self._followers(), key=lambda follower: len(follower.sequence.chain)):
            scheduled = self._schedule(follower.sequence, budget) if follower.is_live else None
            if scheduled is not None and (scheduled := self._make_room(follower, scheduled)):
                chosen.append((follower, scheduled))
                budget -= scheduled.num_tokens
        chosen = [(follower, scheduled) for follower, scheduled in chosen if follower.is_live]  # some were released
        return [*chosen, *islice(self._choose_alternates(), budget)]

    def _choose_alternates(self) -> Iterator[tuple[_Follower, ScheduledTokens]]:
        """The alternates' work, one row each, with the rows that the chains leave."""
        for follower in self._followers():
            for scheduled in self._alternates.schedule(follower.sequence, longest_run=self._longest_run()):
                yield follower, scheduled

    def _followers(self) -> Iterator[_Follower]:
        for link in self.links:
            for sequence_id, sequence in list(link.sequences.items()):
                if sequence.window > 0:
                    yield _Follower(link, sequence_id, sequence)

    def _observe(self, seconds: float, num_draws: int) -> None:
        self.counts.steps += 1
        self.counts.seconds += seconds
        if num_draws:
            weight = _DRAW_WEIGHT if self._draw_seconds else 1.0
            self._draw_seconds += weight * (seconds / num_draws - self._draw_seconds)

    def _longest_run(self) -> int:
        """Tokens of one run, few enough that a commit which contradicts the first of them is handled soon."""
        return max(1, int(min(self._config.max_run, self._config.run_seconds / max(self._draw_seconds, 1e-9))))

    def _schedule(self, sequence: DraftedSequence, budget: int) -> ScheduledTokens | None:
        self._blocks.reuse(sequence.text)
        num_pending = sequence.text.num_pending
        num_tokens = min(num_pending, self._config.prefill_chunk, budget)
        room = self._config.context_length - len(sequence.tokens)
        longest = room if sequence.is_awaited else self._longest_run()
        draws = min(sequence.credit, longest, room) if num_tokens == num_pending else 0
        is_idle = num_tokens == 0 or (num_tokens == num_pending == 1 and draws == 0)
        return None if is_idle else ScheduledTokens(sequence, num_tokens, draws, sequence.least_chance)

    def _make_room(self, follower: _Follower, scheduled: ScheduledTokens) -> ScheduledTokens | None:
        """Allocate blocks for scheduled tokens, with fewer draws if blocks are short.

        If there are not even blocks for its tokens, a sequence with predictions waits until they are verified; for any
        other, sequences of another link are released, or else the sequence itself.
        """
        sequence, text = follower.sequence, follower.sequence.text
        if not self._blocks.has_slot(text):
            self._release(follower.link, follower.sequence_id, ReleaseReason.OUT_OF_MEMORY)
            return None
        end = text.num_computed + scheduled.num_tokens
        if not self._blocks.can_grow(text, end + scheduled.num_draws):
            for other in self._followers():
                self._alternates.end_all(other.sequence)
        if not sequence.chain:
            self._reclaim(follower.link, self._blocks.blocks_for(end) - len(text.blocks))
        room = self._room(follower)
        if end > room:
            if not sequence.chain:
                self._release(follower.link, follower.sequence_id, ReleaseReason.OUT_OF_MEMORY)
            return None
        num_draws = min(scheduled.num_draws, room - end + 1)
        self._blocks.grow(text, end + max(num_draws - 1, 0))
        num_certain = scheduled.certain - text.num_computed
        self._blocks.plan_checkpoint(text, num_certain, is_prompt=sequence.is_prompt_pending)
        return replace(scheduled, num_draws=num_draws)

    def _reclaim(self, link: DraftLink, num_blocks: int) -> None:
        """Free blocks for a link that stays within its share with them."""
        share = self._blocks.num_blocks // len(self.links)
        while self._blocks.num_free < num_blocks and self.num_blocks(link) + num_blocks <= share:
            richest = max(self.links, key=self.num_blocks)  # it has more than a share
            largest = max(richest.sequences, key=lambda sequence_id: len(richest.sequences[sequence_id].text.blocks))
            self._release(richest, largest, ReleaseReason.OUT_OF_MEMORY)

    def _room(self, follower: _Follower) -> int:
        """Tokens that a sequence's blocks can hold once it has all the blocks that it can get."""
        link, text, blocks = follower.link, follower.sequence.text, self._blocks
        quota = blocks.blocks_for(link.quotas.max_cached_tokens) - self.num_blocks(link)
        num_more = min(max(0, quota), blocks.num_available(text))
        return (len(text.blocks) + num_more) * blocks.block_size

    def _settle(self, follower: _Follower, scheduled: ScheduledTokens, token_ids: list[int]) -> None:
        sequence, alternate = follower.sequence, scheduled.sequence
        if isinstance(alternate, Alternate):
            if self._alternates.settle(sequence, alternate, scheduled, token_ids):
                self._send_alternate(follower, alternate)
            return
        sequence.predicted(token_ids, num_asked=scheduled.num_draws)
        scheduled.settle(len(token_ids))
        self._keep(sequence)
        self.counts.tokens += len(token_ids)
        self._send_run(follower.link, follower.sequence_id)

    def _send_run(self, link: DraftLink, number: int) -> None:
        sequence = link.sequences[number]
        run = sequence.next_run()
        if run.token_ids:
            self.counts.runs += 1
            link.send(Prediction(number, sequence.epoch, run.position, tuple(run.token_ids), sequence.has_ended))

    def _send_alternate(self, follower: _Follower, alternate: Alternate) -> None:
        number, epoch = follower.sequence_id, follower.sequence.epoch
        token_id, *token_ids = alternate.branch
        self.counts.alternates += 1
        follower.link.send(
            AlternatePrediction(number, alternate.epoch, alternate.position, token_id, tuple(token_ids), epoch)
        )

    def _keep(self, sequence: DraftedSequence) -> None:
        self._blocks.keep(sequence.text, min(sequence.text.num_computed, sequence.num_committed))

    def _release(self, link: DraftLink, sequence_id: int, reason: ReleaseReason) -> None:
        self.close(link, sequence_id, reason.name)
        self.counts.releases[reason] += 1
        link.send(Release(sequence_id, reason))
