"""VocabularyMatch: how a draft has the tokens of its target."""

from enum import StrEnum

from outrider.v1 import common_pb2


class VocabularyMatch(StrEnum):
    """What the target's vocabulary is to the draft."""

    SAME = "same"
    TRANSLATED = "translated"
    """It is another one: the draft spells what it reads with its own tokens, and predicts those that both have."""
    BYTES = "bytes"
    """It is another one: the draft predicts any of its own tokens, and spells their bytes with the target's."""
    UNKNOWN = "unknown"
    """The server named something that this version of the client does not know."""


_MATCHES: dict[int, VocabularyMatch | None] = {
    common_pb2.VOCABULARY_MATCH_UNSPECIFIED: None,
    common_pb2.VOCABULARY_MATCH_SAME: VocabularyMatch.SAME,
    common_pb2.VOCABULARY_MATCH_TRANSLATED: VocabularyMatch.TRANSLATED,
    common_pb2.VOCABULARY_MATCH_BYTES: VocabularyMatch.BYTES,
}


def parse_vocabulary_match(number: int) -> VocabularyMatch | None:
    """What the number in `outrider.v1.VocabularyMatch` stands for; None for no draft."""
    return _MATCHES.get(number, VocabularyMatch.UNKNOWN)
