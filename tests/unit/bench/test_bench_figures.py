"""The figures of `outrider bench`: how they are derived, and the order of measurements."""

from collections.abc import Sequence as Seq
from pathlib import Path

import pytest

from services.bench.answer import Answer, Arrival, rate_together
from services.bench.contender import AUTO, PLAIN, Way, answers_in_turn, fixed
from services.bench.setting import Setting
from services.bench.spread import Spread
from services.bench.vital_signs import plan_rate
from services.bench.way_figures import WayFigures
from services.cli.service_pair import ModelPair
from services.engine.config import ConfigError

MODELS = ModelPair(Path("target"), None)


def make_answer(seconds: float, *, tokens: Seq[int] = range(11), **options: object) -> Answer:
    return Answer(token_ids=tuple(tokens), first_token=0.5, num_first=1, decode=seconds, **options)


def test_a_spread_is_the_median_between_the_quartiles():
    assert Spread.of([5.0, 1.0, 3.0, 2.0, 4.0]) == Spread(3.0, 2.0, 4.0, 5)
    assert Spread.of([7.0]) == Spread(7.0, 7.0, 7.0, 1)


def test_a_rate_leaves_the_first_tokens_and_their_time_out():
    assert make_answer(2.0).rate == 5.0
    assert Answer(token_ids=(1, 2, 3, 4, 5), first_token=9.0, num_first=3, decode=0.5).rate == 4.0


def test_a_joint_rate_counts_the_time_when_all_streams_decode():
    first = make_answer(1.0, arrivals=(Arrival(0.0, 1), Arrival(2.0, 2), Arrival(3.0, 2), Arrival(4.0, 2)))
    last = make_answer(1.0, arrivals=(Arrival(2.5, 1), Arrival(3.5, 3), Arrival(4.5, 3)))
    assert rate_together([first, last]) == (2 + 2 + 3) / 1.5
    late = make_answer(1.0, arrivals=(Arrival(4.0, 1), Arrival(5.0, 3)))
    assert rate_together([first, late]) is None


def test_speed_ups_are_relative_to_the_plain_answer():
    plain = [make_answer(seconds) for seconds in (2.0, 4.0, 8.0)]
    faster = [
        make_answer(seconds, tokens_per_pass=4.0, arrivals=(Arrival(5.0, 1), Arrival(5.0 + seconds, 10)))
        for seconds in (1.0, 1.0, 4.0)
    ]
    figures = WayFigures.of(faster, plain)
    assert figures.speed_up == Spread(2.0, 2.0, 3.0, 3)
    assert (figures.tokens_per_pass, figures.oracle_fraction) == (4.0, 0.5)
    assert figures.gap == Spread(1.0, 1.0, 2.5, 3)
    assert (figures.num_equal, figures.num_answers) == (3, 3)
    assert WayFigures.of(plain, plain).oracle_fraction is None


def test_an_answer_that_is_not_the_plain_one_is_counted():
    plain = [make_answer(1.0), make_answer(1.0)]
    figures = WayFigures.of([make_answer(1.0), make_answer(1.0, tokens=[0] * 11)], plain)
    assert (figures.num_equal, figures.num_answers) == (1, 2)


def test_the_plan_is_the_best_number_of_predictions():
    pass_seconds = {1: 1.0, 2: 1.0, 4: 1.0, 8: 3.0}
    acceptances = [0.8, 0.6, 0.4, 0.3, 0.2]
    rates = [1.0, 1.8 / 1.1, 2.4 / 1.2, 2.8 / 1.3, 3.1 / (1.5 + 0.4), 3.3 / (2.0 + 0.5)]
    assert plan_rate(pass_seconds, 0.1, acceptances) == pytest.approx(max(rates))
    assert plan_rate(pass_seconds, 0.1, acceptances[:2]) == pytest.approx(rates[2])
    assert plan_rate(pass_seconds, 5.0, acceptances) == pytest.approx(1.0), "to predict nothing is a plan too"


class Recorder:
    """Records only which contender got which prompt."""

    def __init__(self, name: str, ways: Seq[Way], asked: list[tuple[str, str, int, int]]) -> None:
        self.name, self.ways, self._asked = name, ways, asked

    def answers(self, prompts: Seq[Seq[int]], way: Way, *, num_tokens: int) -> list[Answer]:
        self._asked += [(self.name, way.name, prompt[0], num_tokens) for prompt in prompts]
        return [make_answer(1.0, tokens=range(num_tokens)) for _ in prompts]


def test_contenders_and_ways_take_turns_after_a_warm_up():
    asked: list[tuple[str, str, int, int]] = []
    contenders = [Recorder("a", [PLAIN, AUTO], asked), Recorder("b", [PLAIN, fixed(3)], asked)]
    answers = answers_in_turn(contenders, [[10], [20]], num_tokens=8)
    warm_up = [("a", "plain", 10, 2), ("a", "auto", 10, 8), ("b", "plain", 10, 2), ("b", "k = 3", 10, 2)]
    turns = [(name, way, prompt, 8) for prompt in (10, 20) for name, way, _, _ in warm_up]
    assert asked == [*warm_up, *turns]
    assert {name: {way: len(each) for way, each in ways.items()} for name, ways in answers.items()} == {
        "a": {"plain": 2, "auto": 2},
        "b": {"plain": 2, "k = 3": 2},
    }


def test_prompts_are_random_and_always_the_same():
    setting = Setting(models=MODELS, prompt_tokens=16)
    prompts = setting.prompts(vocab_size=1000, count=3)
    assert prompts == setting.prompts(vocab_size=1000, count=5)[:3]
    assert len({tuple(prompt) for prompt in prompts}) == 3
    assert all(len(prompt) == 16 and 256 <= min(prompt) <= max(prompt) < 1000 for prompt in prompts)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rounds": 0}, "rounds is 0; it must be at least 1"),
        ({"new_tokens": 1}, "new_tokens is 1; it must be at least 2"),
        ({"draft_lengths": (3, 0)}, "draft_lengths are 3, 0; each must be at least 1"),
        ({"placements": ("near",)}, "placements are near; each must be one of shared, apart"),
    ],
)
def test_a_setting_that_cannot_be_measured_is_refused(options: dict[str, object], said: str):
    with pytest.raises(ConfigError, match=said):
        Setting(models=MODELS, **options)
