"""HonestDraft: a small model of a draft that keeps to the protocol, and objects to a target that does not."""

from dataclasses import dataclass, field

from services.draft_protocol.messages import (
    AlternatePrediction,
    Close,
    Commit,
    DraftMessage,
    Open,
    Prediction,
    Release,
    TargetMessage,
    Window,
)


@dataclass
class DraftSide:
    """A sequence as the draft has it."""

    num_prompt: int
    tokens: list[int] = field(default_factory=list)  # that it was sent
    chain: list[int] = field(default_factory=list)  # after them
    num_told: int = 0  # of the chain
    window: int = 0
    epoch: int = 1
    last_epoch: int = 1
    alternates: dict[tuple[int, int], tuple[int, list[int]]] = field(default_factory=dict)
    """Position and token: the epoch, and the whole text that it goes on from and with."""

    def begin_epoch(self) -> int:
        self.last_epoch += 1
        return self.last_epoch

    def commit(self, position: int, token_ids: list[int]) -> None:
        """A commit that agrees with the chain keeps it; one whose last token has an alternate continues with that."""
        text = [*self.tokens[:position], *token_ids]
        self._adopt(position, text)
        whole = [*self.tokens, *self.chain]
        if len(text) >= len(self.tokens) and whole[: len(text)] == text:
            self.num_told = max(0, self.num_told - (len(text) - len(self.tokens)))
            self.chain = whole[len(text) :]
        else:
            self.chain, self.num_told, self.epoch = [], 0, self.begin_epoch()
        self.tokens = text
        whole = [*text, *self.chain]
        self.alternates = {
            (place, token_id): (epoch, branch)
            for (place, token_id), (epoch, branch) in self.alternates.items()
            if len(text) <= place < len(whole) and branch[:place] == whole[:place]
        }

    def _adopt(self, position: int, text: list[int]) -> None:
        epoch, branch = self.alternates.get((len(text) - 1, text[-1]), (0, [])) if text else (0, [])
        if position == len(self.tokens) and branch[: len(text)] == text:
            self.chain, self.epoch = branch[position:], epoch
            self.num_told = len(self.chain)


class HonestDraft:
    """One link of it. `claims` has every text that its predictions amount to, by sequence."""

    def __init__(self, *, run_ahead: int, past_ids: set[int]) -> None:
        """`past_ids` are those that other links have seen."""
        self.run_ahead = run_ahead
        self.sides: dict[int, DraftSide] = {}
        self.released: set[int] = set()
        self.claims: dict[int, list[list[int]]] = {}
        self._past_ids = past_ids

    def hear(self, message: TargetMessage) -> None:
        """Take the target's messages in order; they may still concern a released sequence."""
        if message.sequence_id in self.released:
            return
        match message:
            case Open():
                assert message.sequence_id not in self._past_ids, "an id is used again"
                self._past_ids.add(message.sequence_id)
                self.sides[message.sequence_id] = DraftSide(message.num_prompt)
            case Close(sequence_id):
                del self.sides[sequence_id]
            case Window(sequence_id, tokens):
                assert self.run_ahead, "a window for a draft that works between passes only"
                self.sides[sequence_id].window = tokens
            case Commit(sequence_id, position, token_ids, wanted):
                side = self.sides[sequence_id]
                assert position <= len(side.tokens), "a gap"
                side.commit(position, token_ids)
                assert not (self.run_ahead and wanted), "credit with a commit for a draft that runs ahead"
                side.window = side.window if self.run_ahead else wanted

    @property
    def following(self) -> list[int]:
        """The sequences to predict for: all of the prompt is there, and they were not released."""
        return [
            sequence_id
            for sequence_id, side in self.sides.items()
            if sequence_id not in self.released and len(side.tokens) >= side.num_prompt
        ]

    def predict(self, sequence_id: int, token_ids: list[int]) -> list[DraftMessage]:
        """Some more tokens of the chain, as far as the window allows, if there are any to send then."""
        side = self.sides[sequence_id]
        side.chain += token_ids[: max(0, side.window - len(side.chain))]
        start = side.num_told
        side.num_told = len(side.chain)
        self._claim(sequence_id, [*side.tokens, *side.chain])
        position = len(side.tokens) + start
        return [Prediction(sequence_id, side.epoch, position, tuple(side.chain[start:]))] if side.chain[start:] else []

    def predict_alternate(
        self, sequence_id: int, place: int, token_id: int, token_ids: list[int]
    ) -> list[DraftMessage]:
        """What a draft that runs ahead predicts for the case that one of its predictions is another token."""
        side = self.sides[sequence_id]
        if not self.run_ahead or place >= side.num_told or side.chain[place] == token_id:
            return []
        position, epoch = len(side.tokens) + place, side.begin_epoch()
        branch = [*side.tokens, *side.chain[:place], token_id, *token_ids]
        side.alternates[position, token_id] = epoch, branch
        self._claim(sequence_id, branch)
        return [AlternatePrediction(sequence_id, epoch, position, token_id, tuple(token_ids), side.epoch)]

    def release(self, sequence_id: int) -> DraftMessage:
        """Drop a sequence."""
        self.released.add(sequence_id)
        return Release(sequence_id, "RELEASE_REASON_OUT_OF_MEMORY")

    def _claim(self, sequence_id: int, text: list[int]) -> None:
        self.claims.setdefault(sequence_id, []).append(text)
