"""InfillText: a prompt with a gap, as token ids of marks and texts between them."""

from collections.abc import Iterable
from dataclasses import dataclass

from services.engine.text.infill_marks import InfillMarks
from services.engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class InfillText:
    """The pieces of a prompt; `add_special_tokens` adds those that the checkpoint wants before a prompt."""

    pieces: tuple[int | str, ...]
    add_special_tokens: bool

    @classmethod
    def of(
        cls,
        prefix: str,
        suffix: str,
        files: Iterable[tuple[str, str]],
        marks: InfillMarks,
        *,
        add_special_tokens: bool,
    ) -> "InfillText":
        """Return the prompt for a gap between two texts; `files` are names and texts, which need a mark for files."""
        pieces: list[int | str] = []
        for name, text in files:
            assert marks.file is not None
            pieces += [marks.file, f"{name}\n{text}\n"]
        if pieces and marks.file is not None:
            pieces.append(marks.file)
        return cls((*pieces, *marks.around(prefix, suffix)), add_special_tokens)

    @property
    def num_bytes(self) -> int:
        """The size of its texts in UTF-8."""
        return sum(len(piece.encode()) for piece in self.pieces if isinstance(piece, str))

    def encode(self, tokenizer: Tokenizer) -> list[int]:
        """Return the token ids; the names of marks and of other control tokens in the texts are plain characters."""
        ids = _begin(tokenizer) if self.add_special_tokens else []
        for piece in self.pieces:
            if isinstance(piece, int):
                ids.append(piece)
            else:
                ids += tokenizer.encode(piece, add_special_tokens=False, parse_special=False)
        return ids


def _begin(tokenizer: Tokenizer) -> list[int]:
    """The special tokens that the checkpoint wants before a text."""
    bare, whole = (tokenizer.encode("a", add_special_tokens=is_added) for is_added in (False, True))
    return whole[: next((begin for begin in range(len(whole)) if whole[begin : begin + len(bare)] == bare), 0)]
