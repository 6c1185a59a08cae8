"""What a distant draft is worth: `python -m benchmarks.link_delay TARGET DRAFT`.

Target and draft have cores of their own, and a proxy delays the link between them. For each round-trip time the same
prompts are answered in turn with and without the draft, with the draft length that the target decides. The first answer
at each round-trip time is not counted: the target adapts during it. The tokens of both are compared.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.drafts.delaying_proxy import DelayingProxy
from benchmarks.prompts.kinds import CODE, SHORT, prompts_of
from outrider import Client, Result
from services.bench.answer import Answer
from services.bench.contender import AUTO, PLAIN, Way, fixed
from services.bench.served_target import ServedTarget
from services.cli.service_pair import CoreAssignment
from services.cli.service_process import ServiceProcess


def main() -> None:
    """Print a line of JSON for each number of alternates and round trip."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("--weights", default="int8", help="of both services (%(default)s)")
    parser.add_argument("--round-trips", type=float, nargs="+", default=[0.2, 1, 5, 20, 50], metavar="MS")
    parser.add_argument("--alternates", type=int, nargs="+", default=[0, 3], metavar="N")
    parser.add_argument("--length", type=int, help="predictions in each pass (default: as the target decides)")
    parser.add_argument("--prompts", choices=SHORT, default=CODE, help="(%(default)s)")
    parser.add_argument("--count", type=int, default=3, help="number of prompts (%(default)s)")
    parser.add_argument("--new-tokens", type=int, default=96)
    parser.add_argument("--log", type=Path, default=Path("/dev/null"))
    arguments = parser.parse_args()
    for num_alternates in arguments.alternates:
        with _serving(arguments, num_alternates) as (client, proxy):
            prompts = prompts_of(client, arguments.prompts)[: arguments.count + 1]
            for milliseconds in arguments.round_trips:
                proxy.round_trip = milliseconds / 1000
                figures = _measure(client, prompts, arguments)
                setting = {"round_trip_ms": milliseconds, "alternates": num_alternates, "weights": arguments.weights}
                print(json.dumps({**setting, **figures}), flush=True)


@contextmanager
def _serving(arguments: argparse.Namespace, num_alternates: int) -> Iterator[tuple[Client, DelayingProxy]]:
    options, cores = ["--listen", "127.0.0.1:0", "--weights", arguments.weights], CoreAssignment.apart()
    with ExitStack() as stack:
        log = stack.enter_context(arguments.log.open("a"))
        command = ["--model", str(arguments.draft), *options]
        draft = stack.enter_context(ServiceProcess("draft", command, cores=cores.draft, log=log))
        draft.wait_until_serving()
        proxy = stack.enter_context(DelayingProxy(draft.address))
        command = ["--model", str(arguments.target), *options, "--draft", proxy.address]
        command += ["--alternates", str(num_alternates)]
        target = stack.enter_context(ServiceProcess("target", command, cores=cores.target, log=log))
        target.wait_until_serving()
        yield stack.enter_context(Client(target.address)), proxy


def _measure(client: Client, prompts: Seq[Seq[int]], arguments: argparse.Namespace) -> dict[str, object]:
    way = AUTO if arguments.length is None else fixed(arguments.length)
    target = ServedTarget(client, predicts=True, draft_lengths=())
    target.answers(prompts[:1], way, num_tokens=arguments.new_tokens)
    answers = [
        {each: target.answers([prompt], each, num_tokens=arguments.new_tokens)[0] for each in (PLAIN, way)}
        for prompt in prompts[1:]
    ]
    return {
        "plain": _rate(answers, PLAIN),
        "drafted": _rate(answers, way),
        "gain": round(_rate(answers, way) / _rate(answers, PLAIN) - 1, 3),
        "equal": all(each[way].token_ids == each[PLAIN].token_ids for each in answers),
        **_passes([each[way].result for each in answers]),
    }


def _rate(answers: Seq[dict[Way, Answer]], way: Way) -> float:
    """Return the tokens per second of all answers together."""
    tokens = sum(len(each[way].token_ids) - each[way].num_first for each in answers)
    return round(tokens / sum(each[way].decode for each in answers), 2)


def _passes(results: Seq[Result | None]) -> dict[str, float]:
    """Return means and medians over the passes with the draft; times are in milliseconds."""
    known = [result for result in results if result is not None]
    passes = [report for result in known for report in result.pass_reports[1:]]
    return {
        "tokens_per_pass": round(statistics.mean(report.tokens for report in passes), 2),
        "verified": round(statistics.mean(report.predicted for report in passes), 2),
        "without": round(statistics.mean(not report.predicted for report in passes), 3),
        "waiting_ms": round(1000 * statistics.mean(report.waiting for report in passes), 2),
        "pass_ms": round(1000 * statistics.median(report.verifying for report in passes), 2),
        "alternates_used": sum(result.speculation.alternates for result in known),
    }


if __name__ == "__main__":
    main()
