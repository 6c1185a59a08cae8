"""ServiceFigures: a running target with its draft, measured through the RPC in every way, in turn with any peers."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import IO

from outrider import Client
from services.bench.answer import Answer, rate_together
from services.bench.contender import AUTO, PLAIN, Contender, Way, answers_in_turn
from services.bench.link_probe import link_round_trips
from services.bench.served_target import ServedTarget
from services.bench.setting import Setting
from services.bench.spread import Spread
from services.bench.way_figures import WayFigures
from services.cli.service_pair import PLACEMENTS, ServicePair, running_pair

_ROUND_TRIPS = 1000


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """Figures of each way by its name; those of peers by the peer's name and the way's."""

    target_cores: Seq[int]
    draft_cores: Seq[int]
    link_round_trip: Spread | None  # seconds; None without a draft
    prefill_rate: Spread  # tokens of the prompt per second, by the target's own timings
    ways: Mapping[str, WayFigures]
    total_rates: Mapping[str, Spread | None]  # tokens per second of many streams, while all of them decode
    peers: Mapping[str, Mapping[str, WayFigures]]


def measure_services(
    setting: Setting, placement_name: str, *, vocabulary: str, peers: Seq[Contender] = (), log: IO[str]
) -> ServiceFigures:
    """Start the pair on the cores of a placement, measure it in turn with the peers, and stop it.

    `vocabulary` is the fingerprint of the target's. Raises ServiceFailedError if a service does not start or the
    vocabularies differ, and OutriderError if an answer fails.
    """
    placement = PLACEMENTS[placement_name]()
    options, draft_options = setting.service_options(), setting.service_options(of_draft=True)
    with (
        running_pair(setting.models, options=options, draft_options=draft_options, cores=placement, log=log) as pair,
        Client(pair.target.address) as client,
    ):
        link_round_trip = _link_round_trip(pair, vocabulary)  # first: it fails if the two do not match
        target = ServedTarget(client, predicts=bool(setting.models.predictor), draft_lengths=setting.draft_lengths)
        prompts = setting.prompts(client.model_info().vocab_size, max(setting.rounds, setting.streams))
        in_turn = prompts[: setting.rounds]
        answers = answers_in_turn([target, *peers], in_turn, num_tokens=setting.new_tokens)
        figures = {name: _figures(each) for name, each in answers.items()}
        return ServiceFigures(
            target_cores=placement.target,
            draft_cores=placement.draft if pair.draft else (),
            link_round_trip=link_round_trip,
            prefill_rate=_prefill_rate(answers[target.name][PLAIN.name], setting.prompt_tokens),
            ways=figures.pop(target.name),
            total_rates=_total_rates(target, prompts[: setting.streams], setting),
            peers=figures,
        )


def _figures(answers: Mapping[str, Seq[Answer]]) -> dict[str, WayFigures]:
    plain = answers[PLAIN.name]
    return {way: WayFigures.of(each, plain) for way, each in answers.items()}


def _link_round_trip(pair: ServicePair, vocabulary: str) -> Spread | None:
    if pair.draft is None:
        return None
    return Spread.of(link_round_trips(pair.draft.address, vocabulary=vocabulary, count=_ROUND_TRIPS))


def _prefill_rate(answers: Seq[Answer], prompt_tokens: int) -> Spread:
    results = [answer.result for answer in answers if answer.result is not None]
    return Spread.of([prompt_tokens / result.timings.prefill for result in results])


def _total_rates(target: ServedTarget, prompts: Seq[Seq[int]], setting: Setting) -> dict[str, Spread | None]:
    ways = [way for way in (PLAIN, AUTO) if way in target.ways]
    rates: dict[Way, list[float]] = {way: [] for way in ways}
    for _ in range(-(-setting.rounds // 2)):
        for way in ways:
            if rate := rate_together(target.answers(prompts, way, num_tokens=setting.new_tokens)):
                rates[way].append(rate)
    return {way.name: Spread.of(each) if each else None for way, each in rates.items()}
