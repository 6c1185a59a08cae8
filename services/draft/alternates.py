"""Alternates: the branches off the chains of a draft's sequences, and the blocks that they hold."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq

from services.draft.alternate import Alternate
from services.draft.drafted_sequence import DraftedSequence
from services.draft.multi_step_runner import ScheduledTokens
from services.engine.cache.block_manager import BlockManager

_NUM_TOKENS = 6  # of a branch: what is committed in place of the prediction, and what is verified next


class Alternates:
    """Begins, grows and ends them. They take blocks that nobody else wants."""

    def __init__(self, blocks: BlockManager, *, vocab_size: int, context_length: int) -> None:
        self._blocks = blocks
        self._vocab_size = vocab_size
        self._context_length = context_length
        self._alternates: dict[DraftedSequence, list[Alternate]] = {}

    def of(self, sequence: DraftedSequence) -> list[Alternate]:
        """Those of a sequence that there are now."""
        return [*self._alternates.get(sequence, ())]

    def schedule(self, sequence: DraftedSequence, *, longest_run: int) -> Iterator[ScheduledTokens]:
        """What a sequence's alternates have to do next."""
        self._begin(sequence)
        for alternate in self.of(sequence):
            if num_draws := min(alternate.num_draws, longest_run):
                yield ScheduledTokens(alternate, alternate.num_pending, num_draws)

    def settle(
        self, sequence: DraftedSequence, alternate: Alternate, scheduled: ScheduledTokens, drawn: Seq[int]
    ) -> bool:
        """Keep what was drawn for one; returns whether it is complete and so to be told."""
        alternate.num_computed += scheduled.num_tokens + max(len(drawn) - 1, 0)
        alternate.tokens.extend(drawn)
        if not drawn:
            self._end(sequence, alternate)
        alternate.is_told = bool(drawn) and alternate.num_missing == 0
        return alternate.is_told

    def adopt(self, sequence: DraftedSequence, position: int, token_ids: Seq[int]) -> None:
        """Go on with the alternate that a commit says, if there is one: its tokens, blocks and epoch are the
        sequence's then, and the chain so far is given up.
        """
        end = position + len(token_ids)
        for alternate in self.of(sequence):
            is_meant = alternate.position == end - 1 and alternate.tokens[position:end] == [*token_ids]
            if is_meant and position == sequence.num_committed and alternate.is_possible:
                sequence.tokens, alternate.tokens = alternate.tokens, sequence.tokens
                sequence.blocks, alternate.blocks = alternate.blocks, sequence.blocks
                sequence.num_computed, alternate.num_computed = alternate.num_computed, sequence.num_computed
                sequence.epoch = alternate.epoch
                sequence.num_told = len(sequence.tokens) if alternate.is_told else end
                self._end(sequence, alternate)
                return

    def prune(self, sequence: DraftedSequence) -> None:
        """End those whose question is decided."""
        for alternate in self.of(sequence):
            if not alternate.is_possible:
                self._end(sequence, alternate)

    def end_all(self, sequence: DraftedSequence) -> None:
        """End all of a sequence, and give their blocks back."""
        for alternate in self.of(sequence):
            self._end(sequence, alternate)
        self._alternates.pop(sequence, None)

    def _begin(self, sequence: DraftedSequence) -> None:
        """At the next predictions to be judged, each that has none yet, as far as there are blocks for all of it: one
        that had to end half-way would only be begun again.
        """
        taken = {alternate.position for alternate in self.of(sequence)}
        end = min(sequence.num_committed + sequence.num_alternates, len(sequence.tokens))
        for position in range(sequence.num_committed, end):
            if position in taken or position > sequence.num_computed:
                continue
            num_tokens = min(_NUM_TOKENS, self._context_length - position)
            epoch = sequence.begin_epoch()
            alternate = Alternate(sequence, position, epoch=epoch, num_tokens=num_tokens, vocab_size=self._vocab_size)
            self._blocks.share(alternate, sequence, position - 1)
            if not self._blocks.can_grow(alternate, position + num_tokens - 1):
                self._blocks.release(alternate)
                return
            self._blocks.grow(alternate, position + num_tokens - 1)
            self._alternates.setdefault(sequence, []).append(alternate)

    def _end(self, sequence: DraftedSequence, alternate: Alternate) -> None:
        self._alternates[sequence].remove(alternate)
        self._blocks.release(alternate)
