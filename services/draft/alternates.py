"""Alternates: the branches off the chains of a draft's sequences, and the blocks that they hold."""

from collections.abc import Iterator
from collections.abc import Sequence as Seq

from services.draft.alternate import Alternate
from services.draft.drafted_sequence import DraftedSequence
from services.draft.multi_step_runner import ScheduledTokens
from services.engine.cache.block_manager import BlockManager

_NUM_TOKENS = 6  # of a branch: the token committed in place of the prediction, and those verified next


class Alternates:
    """Begins, grows and ends the alternates. They use only blocks that no sequence needs."""

    def __init__(self, blocks: BlockManager, *, vocab_size: int, context_length: int) -> None:
        self._blocks = blocks
        self._vocab_size = vocab_size
        self._context_length = context_length
        self._alternates: dict[DraftedSequence, list[Alternate]] = {}

    def of(self, sequence: DraftedSequence) -> list[Alternate]:
        """The current alternates of a sequence."""
        return [*self._alternates.get(sequence, ())]

    def schedule(self, sequence: DraftedSequence, *, longest_run: int) -> Iterator[ScheduledTokens]:
        """The tokens that a sequence's alternates have to compute and draw next."""
        self._begin(sequence)
        for alternate in self.of(sequence):
            if num_draws := min(alternate.num_draws, longest_run):
                yield ScheduledTokens(alternate, alternate.text.num_pending, num_draws)

    def settle(
        self, sequence: DraftedSequence, alternate: Alternate, scheduled: ScheduledTokens, drawn: Seq[int]
    ) -> bool:
        """Append the tokens drawn for an alternate; returns whether it is complete and so to be sent."""
        alternate.tokens.extend(drawn)
        scheduled.settle(len(drawn))
        if not drawn:
            self._end(sequence, alternate)
        alternate.is_sent = bool(drawn) and alternate.num_missing == 0
        return alternate.is_sent

    def adopt(self, sequence: DraftedSequence, position: int, token_ids: Seq[int]) -> None:
        """If a commit agrees with an alternate, give the sequence its tokens, blocks and epoch, and drop the chain."""
        end = position + len(token_ids)
        for alternate in self.of(sequence):
            is_meant = alternate.position == end - 1 and alternate.tokens[position:end] == [*token_ids]
            if is_meant and position == sequence.num_committed and alternate.is_possible:
                sequence.text, alternate.text = alternate.text, sequence.text
                sequence.epoch = alternate.epoch
                sequence.num_sent = len(sequence.tokens) if alternate.is_sent else end
                self._end(sequence, alternate)
                return

    def prune(self, sequence: DraftedSequence) -> None:
        """End the alternates whose position has been decided."""
        for alternate in self.of(sequence):
            if not alternate.is_possible:
                self._end(sequence, alternate)

    def end_all(self, sequence: DraftedSequence) -> None:
        """End all alternates of a sequence, and free their blocks."""
        for alternate in self.of(sequence):
            self._end(sequence, alternate)
        self._alternates.pop(sequence, None)

    def _begin(self, sequence: DraftedSequence) -> None:
        """Begin an alternate at each of the next predictions that has none, while there are blocks for a whole one: one
        that had to end half-way would only be begun again.
        """
        taken = {alternate.position for alternate in self.of(sequence)}
        end = min(sequence.num_committed + sequence.num_alternates, len(sequence.tokens))
        for position in range(sequence.num_committed, end):
            if position in taken or position > sequence.text.num_computed:
                continue
            num_tokens = min(_NUM_TOKENS, self._context_length - position)
            epoch = sequence.begin_epoch()
            alternate = Alternate(sequence, position, epoch=epoch, num_tokens=num_tokens, vocab_size=self._vocab_size)
            self._blocks.share(alternate.text, sequence.text, position - 1)
            if not self._blocks.can_grow(alternate.text, position + num_tokens - 1):
                self._blocks.release(alternate.text)
                return
            self._blocks.grow(alternate.text, position + num_tokens - 1)
            self._alternates.setdefault(sequence, []).append(alternate)

    def _end(self, sequence: DraftedSequence, alternate: Alternate) -> None:
        self._alternates[sequence].remove(alternate)
        self._blocks.release(alternate.text)
