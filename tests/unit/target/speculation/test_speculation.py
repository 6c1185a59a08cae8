"""Speculation: predictions are added after decoding rows where there is room, and their outcome is counted."""

import math
from collections.abc import Iterable
from collections.abc import Sequence as Seq

import pytest

from services.engine.cache.block_manager import BlockManager
from services.engine.events import FollowCounts, NoSpeculation, PredictionSource, SourceStats, SpeculationStats
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.request import SpeculationMode, SpeculationPolicy
from services.target.scheduling.limits import SchedulerConfig
from services.target.scheduling.scheduled_rows import ScheduledRows
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from services.target.speculation.predictors.prediction_times import PredictionTimes, SequenceTimes
from services.target.speculation.speculation import Speculation
from tests.harness.grammar.grammars import compiler
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.sequences import END, VOCAB_SIZE, byte_tokenizer, draw, make_request, make_sequence, records_of
from tests.unit.simulation import Clock


class Reciter(SilentPredictor):
    """Predicts the same tokens always, whatever it is asked for, and notes the calls that it gets."""

    def __init__(self, tokens: Iterable[int]) -> None:
        self.excuse, self.seconds_each = "", 0.0
        self._tokens = [*tokens]
        self.asked: list[int] = []
        self.told: list[tuple[str, Sequence]] = []

    def why_none(self, sequence: Sequence) -> str:
        return self.excuse

    def times(self, sequences: Seq[Sequence]) -> PredictionTimes:
        return PredictionTimes([SequenceTimes()] * len(sequences), each=self.seconds_each)

    def ask(self, sequence: Sequence, limit: int, least_chance: float = 0.0) -> None:
        self.asked.append(limit)

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> list[int]:
        return self._tokens

    def commit(self, sequence: Sequence) -> FollowCounts:
        self.told.append((f"commit {len(sequence.tokens)}", sequence))
        return FollowCounts()

    def close(self, sequence: Sequence) -> FollowCounts:
        self.told.append(("close", sequence))
        return FollowCounts()


def make_scheduler(num_blocks: int = 64, max_rows: int = 64) -> Scheduler:
    config = SchedulerConfig(max_rows=max_rows, prefill_chunk=16, max_sequences=8)
    return Scheduler(config, BlockManager(num_blocks=num_blocks, block_size=4))


def policy(num_predictions: int, mode: SpeculationMode = SpeculationMode.ALWAYS) -> SpeculationPolicy:
    return SpeculationPolicy(mode=mode, num_predictions=num_predictions)


def add_decoding(scheduler: Scheduler, **options) -> Sequence:
    """Add a sequence whose last token alone is to be computed next."""
    sequence = make_sequence(make_request(b"x", **options))
    scheduler.add(sequence)
    return sequence


def extend(predictor: Reciter, scheduler: Scheduler) -> list[ScheduledRows]:
    batch = scheduler.schedule()
    add_predictions(Speculation([predictor], vocab_size=VOCAB_SIZE), batch, scheduler)
    return batch


def add_predictions(speculation: Speculation, batch: list[ScheduledRows], scheduler: Scheduler) -> None:
    """As a step of the target does."""
    for rows, token_ids in speculation.predict(batch, spare_rows=scheduler.spare_rows):
        scheduler.add_predictions(rows, token_ids)


def predictions(batch: list[ScheduledRows]) -> list[bytes]:
    return [bytes(rows.predictions) for rows in batch]


@pytest.mark.parametrize(("num_predictions", "added"), [(0, b""), (1, b"a"), (3, b"abc"), (9, b"abcdefg")])
async def test_the_requested_number_of_predictions_is_added(num_predictions, added):
    scheduler = make_scheduler()
    add_decoding(scheduler, speculation=policy(num_predictions))
    predictor = Reciter(b"abcdefg")
    assert predictions(extend(predictor, scheduler)) == [added]
    assert predictor.asked == [num_predictions]


@pytest.mark.parametrize(("max_tokens", "added"), [(1, b""), (2, b"a"), (4, b"abc")])
async def test_the_last_token_of_all_is_never_a_prediction(max_tokens, added):
    scheduler = make_scheduler()
    add_decoding(scheduler, speculation=policy(5), max_tokens=max_tokens)
    assert predictions(extend(Reciter(b"abcdefg"), scheduler)) == [added]


async def test_prompts_get_no_predictions():
    scheduler = make_scheduler()
    for length in (2, 16, 40):
        scheduler.add(make_sequence(make_request(b"x" * length)))
    predictor = Reciter(b"abc")
    assert predictions(extend(predictor, scheduler)) == [b"", b"", b""]
    assert predictor.asked == []


async def test_the_pass_keeps_to_its_rows_and_the_oldest_comes_first():
    scheduler = make_scheduler(max_rows=9)
    for _ in range(3):
        add_decoding(scheduler, speculation=policy(4))
    batch = extend(Reciter(b"abcdefg"), scheduler)
    assert predictions(batch) == [b"abcd", b"ab", b""]
    assert sum(rows.num_rows for rows in batch) == 9


async def test_predictions_wait_for_free_blocks():
    scheduler = make_scheduler(num_blocks=2)
    add_decoding(scheduler, speculation=policy(5))
    add_decoding(scheduler, speculation=policy(5))
    assert predictions(extend(Reciter(b"abcdefg"), scheduler)) == [b"abc", b"abc"]  # the rest of their own blocks


@pytest.mark.parametrize("bad", [VOCAB_SIZE, -1, 1 << 40])
async def test_predictions_after_an_id_that_is_no_token_are_dropped(bad):
    scheduler = make_scheduler()
    add_decoding(scheduler, speculation=policy(5))
    (rows,) = extend(Reciter([0, VOCAB_SIZE - 1, bad, 98]), scheduler)
    assert rows.predictions == [0, VOCAB_SIZE - 1]


@pytest.mark.parametrize(
    ("predicted", "added"), [(b"bab", b"bab"), (b"bxb", b"b"), (b"xab", b""), ([98, END, 97], b"b")]
)
async def test_predictions_forbidden_by_the_grammar_are_left_out(predicted, added):
    source = GrammarSource(GrammarKind.REGEX, ("a(ba?)*",))
    scheduler = make_scheduler()
    sequence = add_decoding(
        scheduler, speculation=policy(5), grammar=compiler(byte_tokenizer(), VOCAB_SIZE).compile(source)
    )
    sequence.text.num_computed = 1
    sequence.draw.allowed.grammar.advance(b"a")
    draw(sequence, b"a")
    assert predictions(extend(Reciter(predicted), scheduler)) == [added]


async def test_without_a_predictor_nothing_is_added_and_a_reason_given():
    scheduler = make_scheduler()
    sequence = add_decoding(scheduler, speculation=policy(5))
    speculation = Speculation([], vocab_size=VOCAB_SIZE)
    speculation.open(sequence)
    batch = scheduler.schedule()
    add_predictions(speculation, batch, scheduler)
    assert predictions(batch) == [b""]
    assert sequence.speculation.why_not is NoSpeculation.NO_PREDICTOR


async def test_a_request_without_speculation_never_reaches_a_predictor():
    scheduler = make_scheduler()
    sequence = add_decoding(scheduler, speculation=policy(5, SpeculationMode.NEVER))
    predictor = Reciter(b"abc")
    speculation = Speculation([predictor], vocab_size=VOCAB_SIZE)
    speculation.open(sequence)
    (rows,) = batch = scheduler.schedule()
    add_predictions(speculation, batch, scheduler)
    speculation.settle(rows, records_of(b"y"))
    speculation.close(sequence)
    assert (rows.predictions, predictor.asked, predictor.told) == ([], [], [])
    assert sequence.speculation.why_not is NoSpeculation.FORBIDDEN


async def test_the_predictor_hears_of_every_commit():
    scheduler = make_scheduler()
    sequence = add_decoding(scheduler, speculation=policy(3))
    predictor = Reciter(b"abc")
    speculation = Speculation([predictor], vocab_size=VOCAB_SIZE)
    speculation.open(sequence)
    (rows,) = batch = scheduler.schedule()
    add_predictions(speculation, batch, scheduler)
    drawn = records_of(b"abz", num_predicted=2)
    scheduler.settle(rows, draw(sequence, b"abz"))
    speculation.settle(rows, drawn)
    speculation.close(sequence)
    assert predictor.told == [("commit 1", sequence), ("commit 4", sequence), ("close", sequence)]
    by_source = {PredictionSource.DRAFT: SourceStats(passes=1, offered=3, accepted=2)}
    assert sequence.speculation == SpeculationStats(1, offered=[1, 1, 1], accepted=[1, 1, 0], by_source=by_source)


def run_steps(speculation: Speculation, scheduler: Scheduler, batch: list[ScheduledRows], count: int) -> None:
    """Steps that take next to no time; each commits a token that was not predicted."""
    for _ in range(count):
        add_predictions(speculation, batch, scheduler)
        speculation.observe(batch)


async def test_an_absent_draft_is_not_asked_and_a_reason_is_given():
    scheduler = make_scheduler()
    sequence = add_decoding(scheduler, speculation=policy(3, SpeculationMode.AUTO))
    predictor = Reciter(b"abc")
    predictor.excuse = "it has gone"
    speculation = Speculation([predictor], vocab_size=VOCAB_SIZE)
    batch = scheduler.schedule()
    run_steps(speculation, scheduler, batch, 100)
    stats = sequence.speculation
    assert (stats.why_not, stats.detail) == (NoSpeculation.UNAVAILABLE, "it has gone")
    assert set(predictor.asked) == {0}


async def test_in_auto_mode_a_plain_pass_is_measured_first():
    scheduler = make_scheduler()
    add_decoding(scheduler, speculation=policy(3, SpeculationMode.AUTO))
    predictor = Reciter(b"abc")
    speculation = Speculation([predictor], vocab_size=VOCAB_SIZE)
    batch = scheduler.schedule()
    run_steps(speculation, scheduler, batch, 2)
    assert predictor.asked == [0, 3]


async def test_saved_and_expected_seconds_are_summed():
    scheduler, clock = make_scheduler(), Clock()
    sequence = add_decoding(scheduler, speculation=policy(3, SpeculationMode.AUTO))
    speculation = Speculation([Reciter(b"abc")], vocab_size=VOCAB_SIZE, clock=clock)
    (rows,) = batch = scheduler.schedule()
    for accepted in (None, 3):
        rows.source, rows.predictions = None, []
        add_predictions(speculation, batch, scheduler)
        clock.now += 0.1
        if accepted:
            speculation.settle(rows, records_of(b"abcz", num_predicted=accepted))
        speculation.observe(batch)
    seconds = speculation.seconds
    assert seconds.plain == pytest.approx(4 * 0.1), "of a plain step for each token"
    assert 0.1 <= seconds.taken < 0.15
    assert 2 * seconds.taken < seconds.expected < 4 * seconds.taken
    assert sequence.speculation.accepted == [1, 1, 1]
    own = sequence.speculation.seconds
    assert (own.taken, own.plain) == pytest.approx((seconds.taken + 0.1, seconds.plain + 0.1)), "the plain step too"
    assert own.expected == pytest.approx(seconds.expected + 0.1)


async def test_the_first_predictor_with_predictions_serves_a_sequence():
    scheduler = make_scheduler()
    add_decoding(scheduler, speculation=policy(3))
    silent, first, second = Reciter(b""), Reciter(b"ab"), Reciter(b"xyz")
    silent.source, first.source = PredictionSource.DRAFT, PredictionSource.LOOKUP
    speculation = Speculation([silent, first, second], vocab_size=VOCAB_SIZE)
    (rows,) = batch = scheduler.schedule()
    add_predictions(speculation, batch, scheduler)
    assert (bytes(rows.predictions), rows.source) == (b"ab", PredictionSource.LOOKUP)
    assert rows.waiting > 0
    assert (silent.asked, first.asked, second.asked) == ([3], [3], [0])


@pytest.mark.parametrize("faster", [PredictionSource.ATTACHED, PredictionSource.DRAFT])
async def test_of_a_draft_and_a_head_the_faster_is_asked_first(faster):
    scheduler, clock = make_scheduler(num_blocks=256), Clock()
    sequence = add_decoding(scheduler, speculation=policy(3, SpeculationMode.AUTO), max_tokens=500)
    slow, fast = predictors = [Reciter(b"abc"), Reciter(b"abc")]  # in the order in which they are asked at first
    fast.source, fast.seconds_each = faster, 0.001
    slow.source, slow.seconds_each = ({PredictionSource.ATTACHED, PredictionSource.DRAFT} - {faster}).pop(), 0.02
    speculation = Speculation(predictors, vocab_size=VOCAB_SIZE, clock=clock)
    speculation.open(sequence)
    batch, served = scheduler.schedule(), []
    for _ in range(60):
        batch[0].source, batch[0].predictions = None, []
        add_predictions(speculation, batch, scheduler)
        served.append(batch[0].source)
        num_predicted = len(batch[0].predictions)
        clock.now += 0.1 + 0.002 * num_predicted
        speculation.settle(batch[0], records_of(b"abcz"[-1 - num_predicted :], num_predicted=num_predicted))
        speculation.observe(batch)
    assert {*served[20:]} <= {faster, None}
    assert faster in served[20:]


async def test_lookup_serves_a_sequence_after_a_vain_draft_wait():
    scheduler = make_scheduler()
    add_decoding(scheduler, speculation=policy(3))
    draft, lookup = Reciter(b""), Reciter(b"ab")
    lookup.source = PredictionSource.LOOKUP
    (rows,) = batch = scheduler.schedule()
    add_predictions(Speculation([draft, lookup], vocab_size=VOCAB_SIZE), batch, scheduler)
    assert (bytes(rows.predictions), rows.source) == (b"ab", PredictionSource.LOOKUP)
    assert rows.waiting > 0
    assert (draft.asked, lookup.asked) == ([3], [3])


async def test_a_lookup_counts_as_no_wait():
    scheduler = make_scheduler()
    add_decoding(scheduler, speculation=policy(3))
    lookup = Reciter(b"")
    lookup.source = PredictionSource.LOOKUP
    (rows,) = batch = scheduler.schedule()
    add_predictions(Speculation([lookup], vocab_size=VOCAB_SIZE), batch, scheduler)
    assert lookup.asked == [3]
    assert rows.waiting == 0


async def test_each_stream_has_its_own_expected_speedup():
    scheduler, clock = make_scheduler(), Clock()
    left_open = add_decoding(scheduler, speculation=policy(3, SpeculationMode.AUTO))
    for _ in range(2):
        add_decoding(scheduler, speculation=policy(0, SpeculationMode.NEVER))
    speculation = Speculation([Reciter(b"abc")], vocab_size=VOCAB_SIZE, clock=clock)
    batch = scheduler.schedule()
    for num_accepted in (0, 3):
        for rows in batch:
            rows.source, rows.predictions = None, []
        add_predictions(speculation, batch, scheduler)
        clock.now += 0.1
        speculation.settle(batch[0], records_of(b"abcz"[: num_accepted + 1], num_predicted=num_accepted))
        speculation.observe(batch)
    seconds = left_open.speculation.seconds
    assert 1.5 < (seconds.expected - 0.1) / (seconds.taken - 0.1) < 4, "the two others get one token"


async def test_if_the_first_predictors_ids_are_bad_the_next_is_asked():
    scheduler = make_scheduler()
    add_decoding(scheduler, speculation=policy(3))
    batch = scheduler.schedule()
    predictors = [Reciter([VOCAB_SIZE]), Reciter(b"ab")]
    add_predictions(Speculation(predictors, vocab_size=VOCAB_SIZE), batch, scheduler)
    assert predictions(batch) == [b"ab"]


async def test_every_predictor_hears_everything_and_excuses_are_joined():
    scheduler = make_scheduler()
    sequence = add_decoding(scheduler, speculation=policy(3))
    predictors = [Reciter(b""), Reciter(b""), Reciter(b"")]
    for predictor, excuse in zip(predictors, ("it is new", "it has gone", "it is new"), strict=True):
        predictor.excuse = excuse
    speculation = Speculation(predictors, vocab_size=VOCAB_SIZE)
    speculation.open(sequence)
    add_predictions(speculation, scheduler.schedule(), scheduler)
    speculation.follow(sequence)
    speculation.close(sequence)
    for predictor in predictors:
        assert [what for what, _ in predictor.told] == ["commit 1", "commit 1", "close"]
    assert sequence.speculation.why_not is NoSpeculation.UNAVAILABLE
    assert sequence.speculation.detail == "it is new; it has gone"


def test_acceptance_is_counted_by_position_and_by_source():
    stats = SpeculationStats()
    draft, lookup = PredictionSource.DRAFT, PredictionSource.LOOKUP
    for source, num_offered, num_accepted in [(draft, 2, 2), (None, 0, 0), (lookup, 4, 1), (draft, 1, 0)]:
        stats.count(source, num_offered, num_accepted)
    by_source = {draft: SourceStats(passes=2, offered=3, accepted=2), lookup: SourceStats(1, 4, 1)}
    assert stats == SpeculationStats(passes=4, offered=[3, 2, 1, 1], accepted=[2, 1, 0, 0], by_source=by_source)


async def test_losses_returns_and_alternates_are_counted():
    class Lossy(SilentPredictor):
        """Is lost and comes again, as often as it is asked."""

        def commit(self, sequence: Sequence) -> FollowCounts:
            return FollowCounts(opens=1, losses=1, alternates=2)

        def close(self, sequence: Sequence) -> FollowCounts:
            return FollowCounts(alternates=1)

    sequence, speculation = make_sequence(make_request()), Speculation([Lossy()], vocab_size=VOCAB_SIZE)
    speculation.open(sequence)
    stats = sequence.speculation
    assert (stats.losses, stats.returns, stats.alternates) == (1, 0, 2), "it has not come again yet"
    speculation.follow(sequence)
    speculation.close(sequence)
    assert (stats.losses, stats.returns, stats.alternates) == (2, 1, 5)
