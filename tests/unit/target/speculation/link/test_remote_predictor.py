"""RemotePredictor: what a draft is sent of the live sequences, and what becomes of its answers."""

import pytest

from services.draft_protocol.messages import Close, Commit, Open, Window
from services.draft_protocol.protocol import MAX_COMMIT
from services.target.speculation.predictors.predictor import PredictionRequest
from tests.unit.linked_predictor import PROMPT, RUN_AHEAD, LinkedPredictor


async def test_a_sequence_is_opened_with_its_tokens_and_a_window():
    predictor = LinkedPredictor()
    sequence = predictor.add()
    assert predictor.num_wakes
    assert predictor.sent() == [Open.of(1, sequence.request), Commit(1, 0, [*PROMPT]), Window(1, 4 + RUN_AHEAD)]
    assert predictor.sent() == []


async def test_commits_that_wait_become_one():
    predictor = LinkedPredictor()
    sequence = predictor.add()
    predictor.sent()
    for token in b"abc":
        predictor.draw(sequence, bytes([token]))
    assert predictor.sent() == [Commit(1, 5, [*b"abc"])]


async def test_a_pass_that_adds_no_token_is_no_news():
    predictor = LinkedPredictor()
    sequence = predictor.add()
    predictor.sent()
    num_wakes = predictor.num_wakes
    predictor.remote.commit(sequence)
    assert (predictor.num_wakes, predictor.sent()) == (num_wakes, [])


async def test_a_long_prompt_goes_in_pieces_and_sequences_take_turns():
    predictor = LinkedPredictor()
    long, short = predictor.add(bytes(2 * MAX_COMMIT + 1)), predictor.add()
    messages = predictor.sent()
    assert messages[:4] == [
        Open.of(1, long.request),
        Open.of(2, short.request),
        Commit(1, 0, [0] * MAX_COMMIT),
        Commit(2, 0, [*PROMPT]),
    ]
    pieces = [message for message in messages if isinstance(message, Commit) and message.sequence_id == 1]
    assert [(piece.position, len(piece.token_ids)) for piece in pieces] == [
        (0, MAX_COMMIT),
        (MAX_COMMIT, MAX_COMMIT),
        (2 * MAX_COMMIT, 1),
    ]


async def test_no_commits_are_sent_while_no_predictions_are_wanted():
    predictor = LinkedPredictor()
    sequence = predictor.add()
    predictor.predict(sequence, 0)
    predictor.sent()
    predictor.draw(sequence, b"abc")
    assert predictor.sent() == []
    predictor.predict(sequence, 2)
    assert predictor.sent() == [Commit(1, 5, [*b"abc"]), Window(1, 2 + RUN_AHEAD)]


async def test_a_draft_in_the_way_gets_a_sequence_when_asked_for_it():
    predictor = LinkedPredictor(is_connected=False)
    predictor.connect(run_ahead=0)
    sequence = predictor.add()
    assert predictor.sent() == []
    predictor.predict(sequence, 3)
    assert predictor.sent() == [Open.of(1, sequence.request), Commit(1, 0, [*PROMPT], wanted=3)]
    predictor.draw(sequence, b"abc")
    assert predictor.sent() == [], "its credit has ended"
    predictor.predict(sequence, 3)
    assert predictor.sent() == [Commit(1, 5, [*b"abc"], wanted=3)]
    predictor.predict(sequence, 2)
    assert predictor.sent() == [Commit(1, 8, [], wanted=2)]
    predictor.predict(sequence, 0)
    assert predictor.sent() == [Commit(1, 8, [])]


async def test_a_step_without_predictions_stops_a_draft_in_the_way():
    predictor = LinkedPredictor(is_connected=False)
    predictor.connect(run_ahead=0)
    sequence = predictor.add()
    predictor.predict(sequence, 3)
    predictor.sent()
    predictor.draw(sequence, b"a")
    predictor.remote.ask(sequence, 0)
    assert predictor.sent() == [Commit(1, 5, [*b"a"])]
    predictor.draw(sequence, b"b")
    predictor.remote.ask(sequence, 0)
    assert predictor.sent() == [], "it rests already"


@pytest.mark.parametrize("run_ahead", [0, RUN_AHEAD])
async def test_an_earlier_request_is_kept_where_the_draft_runs_ahead(run_ahead):
    predictor = LinkedPredictor(is_connected=False)
    predictor.connect(run_ahead=run_ahead)
    first, second = predictor.add(), predictor.add()
    [*predictor.remote.predict([PredictionRequest(first, 3), PredictionRequest(second, 0)])]
    assert predictor.remote.granted == 3 + run_ahead
    [*predictor.remote.predict([PredictionRequest(each, 0, keeps_earlier=True) for each in (first, second)])]
    kept = predictor.remote.granted
    assert kept == (3 + 4 + 2 * run_ahead if run_ahead else 0), "one that had no request gets the default"
    predictor.remote.rest(first)
    assert predictor.remote.granted == kept


async def test_a_draft_in_the_way_rests_where_another_source_serves():
    predictor = LinkedPredictor(is_connected=False)
    predictor.connect(run_ahead=0)
    first, second = predictor.add(), predictor.add()
    [*predictor.remote.predict([PredictionRequest(first, 3), PredictionRequest(second, 2)])]
    predictor.remote.rest(first)
    assert predictor.remote.granted == 2


async def test_requests_of_a_step_are_sent_before_any_wait():
    predictor = LinkedPredictor()
    first, second = predictor.add(), predictor.add()
    predictor.sent()
    answers = predictor.remote.predict([PredictionRequest(first, 2), PredictionRequest(second, 6, max_wait=0.0)])
    windows = [message for message in predictor.sent() if isinstance(message, Window)]
    assert windows == [Window(1, 2 + RUN_AHEAD), Window(2, 6 + RUN_AHEAD)]
    assert predictor.hear(5, b"abc")
    assert next(answers) == [*b"ab"]
    assert next(answers) == []


async def test_answers_of_a_draft_that_catches_up_are_not_timed():
    predictor = LinkedPredictor(is_connected=False)
    predictor.connect(run_ahead=0)
    sequence = predictor.add(bytes(100))
    for number in range(3):
        predictor.predict(sequence, 2)
        predictor.sent()
        predictor.draw(sequence, bytes([number]))
    predictor.predict(sequence, 2)
    predictor.hear(103, b"ab")
    times = predictor.remote.times([sequence])
    assert (times.delay, times.each, times.is_trusted) == (0.0, 0.0, False), "nothing is known yet"


async def test_credit_comes_with_the_last_piece_of_a_prompt():
    predictor = LinkedPredictor(is_connected=False)
    predictor.connect(run_ahead=0)
    predictor.predict(predictor.add(bytes(MAX_COMMIT + 1)), 3)
    assert predictor.sent()[1:] == [Commit(1, 0, [0] * MAX_COMMIT), Commit(1, MAX_COMMIT, [0], wanted=3)]


async def test_a_link_to_a_draft_in_the_way_begins_without_credit():
    predictor = LinkedPredictor()
    sequence = predictor.add()
    predictor.predict(sequence, 2)
    predictor.remote.disconnected("it is gone")
    predictor.connect(run_ahead=0)
    assert predictor.sent() == [Open.of(2, sequence.request), Commit(2, 0, [*PROMPT])]


async def test_a_step_that_wants_no_predictions_pauses_the_draft():
    predictor = LinkedPredictor()
    sequence = predictor.add()
    predictor.sent()
    assert predictor.predict(sequence, 0) == []
    assert predictor.sent() == [Window(1, 0)]
    predictor.predict(sequence, 0)
    assert predictor.sent() == []
    predictor.predict(sequence, 2)
    assert predictor.sent() == [Window(1, 2 + RUN_AHEAD)]


async def test_predictions_continue_the_committed_tokens():
    predictor = LinkedPredictor()
    sequence = predictor.add()
    predictor.sent()
    predictor.hear(5, b"abc")
    assert predictor.predict(sequence, 2) == [*b"ab"]
    predictor.draw(sequence, b"ab")
    assert predictor.predict(sequence, 4) == [*b"c"]
    predictor.draw(sequence, b"x")
    assert predictor.predict(sequence, 4) == []


async def test_a_closed_sequence_is_sent_and_later_messages_ignored():
    predictor = LinkedPredictor()
    sequence = predictor.add()
    predictor.sent()
    predictor.remote.close(sequence)
    assert predictor.sent() == [Close(1)]
    assert not predictor.hear(5, b"abc")
    assert not predictor.hear_release(1, "why not")


async def test_messages_of_unopened_or_released_sequences_are_ignored():
    predictor = LinkedPredictor()
    sequence = predictor.add()
    assert not predictor.hear(5, b"abc")
    assert not predictor.hear_release(1, "why not")
    predictor.sent()
    assert predictor.hear_release(1, "why not")
    assert not predictor.hear(5, b"abc")
    assert predictor.predict(sequence, 4) == []


async def test_a_sequence_that_ends_before_its_open_is_never_sent():
    predictor = LinkedPredictor()
    predictor.remote.close(predictor.add())
    assert predictor.sent() == []


async def test_a_new_link_opens_every_live_sequence_under_another_id():
    predictor = LinkedPredictor()
    sequences = [predictor.add(), predictor.add(b"abc")]
    predictor.sent()
    predictor.hear(5, b"old")
    predictor.remote.close(predictor.add())
    predictor.remote.disconnected("it is gone")
    assert predictor.remote.absence == "it is gone"
    assert predictor.predict(sequences[0], 4) == []
    predictor.connect()
    assert (predictor.remote.absence, predictor.remote.num_arrivals) == ("", 2)
    messages = predictor.sent()
    ids = [message.sequence_id for message in messages if isinstance(message, Open)]
    assert len(set(ids)) == 2
    assert not set(ids) & {1, 2, 3}
    assert Commit(ids[0], 0, [*PROMPT]) in messages
    predictor.hear(5, b"old", sequence_id=1)
    assert predictor.predict(sequences[0], 4) == []
    predictor.hear(5, b"new", sequence_id=ids[0])
    assert predictor.predict(sequences[0], 4) == [*b"new"]
    for sequence in sequences:
        predictor.follow(sequence)
    assert [(s.speculation.losses, s.speculation.returns) for s in sequences] == [(1, 1), (1, 1)]


async def test_a_released_sequence_has_no_draft_until_the_next_link(caplog):
    caplog.set_level("INFO")
    predictor = LinkedPredictor(longest_wait=1e6)
    sequence = predictor.add()
    predictor.sent()
    predictor.hear(5, b"abc")
    for _ in range(3):
        predictor.hear_release(1, "OUT_OF_MEMORY")
    assert "OUT_OF_MEMORY" in predictor.remote.why_none(sequence)
    assert caplog.messages == ["request test: the draft dropped it: OUT_OF_MEMORY"], "saying it again is no news"
    assert predictor.predict(sequence, 4) == []
    predictor.draw(sequence, b"a")
    assert predictor.sent() == []
    assert (sequence.speculation.losses, sequence.speculation.returns) == (1, 0)
    predictor.remote.disconnected("it is gone")
    predictor.connect()
    assert isinstance(predictor.sent()[0], Open)
    predictor.follow(sequence)
    assert (sequence.speculation.losses, sequence.speculation.returns) == (1, 1)


async def test_a_sequence_released_amid_its_prompt_is_sent_no_further():
    predictor = LinkedPredictor()
    predictor.add(bytes(2 * MAX_COMMIT))
    outgoing = predictor.remote.outgoing()
    assert [type(next(outgoing)) for _ in range(2)] == [Open, Commit]
    predictor.hear_release(1, "TOO_LONG")
    assert [*outgoing] == []


async def test_a_flood_takes_no_room():
    predictor = LinkedPredictor()
    sequence = predictor.add()
    predictor.sent()
    assert predictor.hear(5, b"z" * (4 + RUN_AHEAD))
    for position in range(5 + 4 + RUN_AHEAD, 60):
        assert not predictor.hear(position, b"z")
    assert predictor.predict(sequence, 1000) == []
    assert predictor.hear(5, b"y", epoch=2)
    assert predictor.predict(sequence, 4) == [*b"y"]


@pytest.mark.parametrize(
    ("epoch", "position", "tokens"), [(0, 5, b"a"), (1, 6, b"a"), (1, 2**32 - 1, b"a"), (1, 4, b"xa"), (1, 5, b"")]
)
async def test_a_run_that_makes_no_sense_is_left_out(epoch, position, tokens):
    predictor = LinkedPredictor()
    sequence = predictor.add()
    predictor.sent()
    assert not predictor.hear(position, tokens, epoch=epoch)
    assert predictor.predict(sequence, 4) == []
