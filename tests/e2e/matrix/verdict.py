"""The verdict on a cell: its streams gave the reference's bytes, and it did what it names."""

from collections.abc import Iterator

from outrider import NoSpeculationReason, VocabularyMatch
from tests.e2e.matrix.cells import ATTACHED, Cell
from tests.e2e.matrix.processors import device_name
from tests.e2e.matrix.run import Outcome
from tests.e2e.matrix.streams import NUM_SAMPLES, StreamKey, streams_of
from tests.e2e.matrix.transcript import Transcript

_MIN_PREDICTED = 50
_MIN_PREDICTED_AND_ALLOWED = 5  # what a grammar forbids is not verified, and that is most of what makes no sense
_UNPREDICTABLE = ("banned", "samples")  # what is right does not tell what is forbidden, nor which sample it is
_READ_AHEAD = 24  # tokens that may be generated before it shows that their reader has paused


def differences_of(cell: Cell, outcome: Outcome, references: dict[StreamKey, Transcript]) -> list[str]:
    """Where the streams did not give the reference's bytes."""
    differences = (_difference(key, outcome, references[key]) for key in streams_of(cell))
    return [*filter(None, differences)]


def _difference(key: StreamKey, outcome: Outcome, reference: Transcript) -> str | None:
    if key not in outcome.results:
        return f"{key.name}: no result"
    difference = Transcript.of(outcome.results[key]).difference(reference)
    return f"{key.name}: {difference}" if difference else None


def undone_of(cell: Cell, outcome: Outcome) -> list[str]:
    """The circumstances that the cell names and that did not occur."""
    return [*_undone(cell, outcome)]


def _undone(cell: Cell, outcome: Outcome) -> Iterator[str]:
    counts = outcome.counts
    setup, parts = cell.setup, outcome.parts
    assert parts is not None
    if (parts.device, parts.weight_format, parts.kv_type) != (device_name(setup.isa), setup.weights, setup.kv):
        yield f"on {parts}"
    yield from _not_cached(cell, outcome)
    yield from _company_not_kept(cell, counts["most_sequences"])
    if (counts["partial_prefills"] > 0) != (cell.setup.prefill == "chunks"):
        yield f"prefill {cell.setup.prefill}, but {counts['partial_prefills']} passes held a part of a prompt only"
    if (counts["preemptions"] > 0) != (cell.setup.blocks == "few"):
        yield f"{cell.setup.blocks} blocks, but {counts['preemptions']} preemptions"
    yield from _not_killed(cell, outcome)
    if cell.setup.source == "script":
        yield from _not_predicted(cell, outcome)
        yield from _not_taken_back(cell, counts["broken_runs"])
    elif cell.setup.source in ATTACHED:
        yield from _not_attached(cell, outcome)
    elif cell.predictions == "absent":
        yield from _not_absent(outcome)
    else:
        yield from _not_drafted(cell, outcome)
        yield from _not_back(cell, outcome)


def _not_cached(cell: Cell, outcome: Outcome) -> Iterator[str]:
    found = {key.name: result.started.cached_tokens for key, result in outcome.results.items()}
    if any(found.values()) != (cell.cache == "warm"):
        yield f"{cell.cache} cache, but of the prompts there were found {found}"


def _company_not_kept(cell: Cell, most_sequences: int) -> Iterator[str]:
    intruders = cell.setup.blocks == "few"
    own = NUM_SAMPLES if cell.setting == "samples" else 1
    is_kept = most_sequences > own if cell.company == "others" else most_sequences == own + intruders
    if not is_kept:
        yield f"{cell.company}, but up to {most_sequences} sequences in one pass"


def _not_killed(cell: Cell, outcome: Outcome) -> Iterator[str]:
    resumed = sum(result.resumed for _, result in outcome.samples)
    counts = outcome.counts
    if cell.fate == "spared":
        if outcome.kills_in_stream or resumed or counts["resumed_streams"]:
            yield f"spared, but {resumed} streams were resumed"
    elif not (outcome.kills_in_stream and resumed and counts["resumed_tokens"]):
        yield (
            f"killed, but {outcome.kills_in_stream} kills were in mid stream, {resumed} streams were resumed, "
            f"with {counts['resumed_tokens']} tokens"
        )


def _not_taken_back(cell: Cell, broken_runs: int) -> Iterator[str]:
    """In company only one stream has something banned, and right predictions may all end before it."""
    is_sure = cell.company == "alone" and cell.predictions in {"right", "mixed"}
    if cell.setting == "banned" and is_sure and not broken_runs:
        yield "banned, but no tokens were taken back beside a right prediction"


def _not_absent(outcome: Outcome) -> Iterator[str]:
    for key, result in outcome.samples:
        figures = result.speculation
        if figures.predicted or figures.no_speculation_reason is not NoSpeculationReason.UNAVAILABLE:
            yield f"{key.name}: no draft, but {figures}"


def _not_attached(cell: Cell, outcome: Outcome) -> Iterator[str]:
    """Of the last server, where one was killed."""
    figures = [result.speculation for _, result in outcome.samples]
    predicted, accepted = (sum(getattr(each, name) for each in figures) for name in ("predicted", "accepted"))
    is_of_its_kind = {
        "random": accepted < predicted / 2,
        "trained": 0 < accepted < predicted,
        "constructed": accepted >= _least_right(cell) * predicted,
    }
    is_tested = predicted >= _least_predicted(cell) and is_of_its_kind[cell.setup.source.split()[0]]
    if (predicted > 0) if cell.predictions == "none" else not is_tested:
        yield f"{cell.setup.source}, but of {predicted} verified predictions {accepted} were accepted"


def _least_right(cell: Cell) -> float:
    """The least share of right predictions of a drafter that would always be right: it does not know forbidden tokens,
    nor Mirostat's level after its own draws, and int4 rounds its weights.
    """
    is_free = cell.company == "alone" and cell.setting not in ("grammar", "banned", "truncated")
    if cell.setting == "truncated":
        return 0.3
    return 0.9 if is_free and cell.setup.weights != "int4" else 0.5


def _least_predicted(cell: Cell) -> int:
    is_grammar = (cell.setting, cell.company) == ("grammar", "alone")
    return _MIN_PREDICTED_AND_ALLOWED if is_grammar else _MIN_PREDICTED


def _not_drafted(cell: Cell, outcome: Outcome) -> Iterator[str]:
    """A server that was killed has taken its count with it: that of the records has the rest."""
    figures = [result.speculation for _, result in outcome.samples]
    predicted = sum(each.predicted for each in figures)
    rejected = predicted - sum(each.accepted for each in figures)
    accepted = sum(token.predicted for _, result in outcome.samples for token in result.tokens)
    is_tested = predicted >= _least_predicted(cell) and rejected > 0
    is_of_its_kind = {"garbage": accepted == 0, "random": accepted < rejected}.get(cell.predictions, accepted > 0)
    if not (is_tested and is_of_its_kind):
        yield f"{cell.predictions} draft, but of {predicted} verified predictions {accepted} were accepted"
    matches = {each.draft_vocabulary for each in figures}
    is_foreign = bool(matches & {VocabularyMatch.TRANSLATED, VocabularyMatch.BYTES})  # the demo's, and the others'
    if is_foreign != (cell.predictions == "reworded"):
        yield f"{cell.predictions} draft, but of vocabularies {matches}"


def _not_back(cell: Cell, outcome: Outcome) -> Iterator[str]:
    """Predictions on their way may be accepted a little longer; those accepted later are of a draft that is back."""
    if cell.predictions not in {"paused", "killed"}:
        return
    used_again = 0
    for key, position in outcome.draft_was_back.items():
        result = outcome.results[key]
        used_again += sum(token.predicted for token in result.tokens[position + _READ_AHEAD :])
        counts = (result.speculation.draft_losses, result.speculation.draft_returns)
        if counts != ((1, 1) if cell.predictions == "killed" else (0, 0)):
            yield f"{key.name}: draft {cell.predictions}, but it has losses and returns of {counts}"
    if not used_again:
        yield f"draft {cell.predictions}, but it was of no use again in {[*outcome.draft_was_back.values()]}"


def _not_predicted(cell: Cell, outcome: Outcome) -> Iterator[str]:
    """What was accepted is counted from the records, which know of every server that a stream has been on."""
    accepted = sum(token.predicted for _, result in outcome.samples for token in result.tokens)
    rejected = sum(
        result.speculation.predicted - result.speculation.accepted
        for key, result in outcome.samples
        if cell.predictions != "right" or key.setting not in _UNPREDICTABLE
    )
    wanted = {"none": (False, False), "right": (True, False), "wrong": (False, True), "mixed": (True, True)}
    if (accepted > 0, rejected > 0) != wanted[cell.predictions]:
        yield f"predictions {cell.predictions}, but {accepted} were accepted and {rejected} rejected"
