"""The options of `outrider generate`, in groups; the server decides those that are not given."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import get_args, get_type_hints

from outrider import GenerateOptions
from services.cli.calls.prompt import add_prompt
from services.cli.calls.readiness import add_client_options

_HINTS = get_type_hints(GenerateOptions)
_NUMBERS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "length": {
            "max_tokens": "the most tokens to generate (as many as fit into the context)",
            "min_tokens": "do not end before so many tokens (0)",
            "max_thinking_tokens": "end a thought after so many tokens (no limit)",
        },
        "sampling": {
            "temperature": "divides the logits: less is more predictable, 0 always takes the likeliest token (1)",
            "top_k": "keep the K likeliest tokens, 0: all (0)",
            "top_p": "keep the likeliest tokens that have this probability together (1)",
            "min_p": "keep tokens with at least this fraction of the best token's probability (0)",
            "repetition_penalty": "divides the logits of tokens that have occurred, prompt included (1)",
            "seed": "the same seed gives the same text (a new one each time)",
            "guidance_scale": "how strongly the text is guided away from --negative-prompt (1: not at all)",
            "best_of": "generate so many answers and print the likeliest (1)",
        },
        "further penalties": {
            "frequency_penalty": "taken from a token's logit for each time that it was generated (0)",
            "presence_penalty": "taken from the logits of tokens that were generated at all (0)",
            "penalty_last_n": "penalties count the last N tokens, 0: all (0)",
            "penalty_decay": "and N tokens before these, with a weight that falls to zero (0)",
            "no_repeat_ngram_size": "never repeat a run of N tokens, 0: allowed (0)",
            "dry_multiplier": "strength of DRY, which penalises tokens that continue a repetition, 0: off (0)",
            "dry_base": "factor by which each further repeated token increases it (1.75)",
            "dry_allowed_length": "repetitions shorter than this are free (2)",
            "dry_penalty_last_n": "DRY looks for repetitions in the last N tokens, 0: all (0)",
        },
        "further samplers": {
            "top_n_sigma": "keep tokens whose logits are within X standard deviations of the best, 0: all (0)",
            "smoothing_factor": "smooth sampling: bends the distances of logits from the best, 0: off (0)",
            "smoothing_curve": "how much more it lowers logits far from the best (1)",
            "dynatemp_range": "let the temperature move by so much with the entropy (0)",
            "dynatemp_exponent": "the power of the entropy in dynatemp (1)",
            "top_a": "keep tokens with at least X times the square of the best probability (0)",
            "tfs_z": "tail-free sampling: the share of the curve's bends to keep (1)",
            "typical_p": "keep the tokens nearest to the expected surprise, with this probability together (1)",
            "epsilon_cutoff": "keep tokens with at least this probability (0)",
            "eta_cutoff": "as epsilon-cutoff, with a lower probability where the entropy is high (0)",
            "xtc_probability": "probability that XTC removes the likeliest tokens, all but one (0)",
            "xtc_threshold": "XTC removes only tokens with at least this probability (0.1)",
            "skew": "above 0 favours unlikely tokens, below 0 likely ones (0)",
            "mirostat_mode": "Mirostat's version, 1 or 2, which keeps the surprise at a level, 0: off (0)",
            "mirostat_tau": "the level of surprise that Mirostat keeps, in bits (5)",
            "mirostat_eta": "how fast Mirostat approaches its level (0.1)",
            "adaptive_target": "adaptive-p: the mean probability of the chosen tokens to aim at, below 0: off (-1)",
            "adaptive_decay": "how slowly it forgets earlier tokens (0.9)",
        },
        "speculation": {
            "num_predictions": "predictions to verify in each pass, with --speculation always (the server's)",
        },
    }
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    parser.usage = "%(prog)s [option …] PROMPT"
    add_prompt(parser, "the text to continue")
    parser.add_argument("--model", metavar="NAME", help="which of the server's models (its first)")
    parser.add_argument("--lora", metavar="NAME", help="which of the model's adapters (none)")
    parser.add_argument("--session", metavar="NAME", help="continue after the tokens of this session (none)")
    parser.add_argument("--priority", type=int, metavar="N", help="among the caller's own waiting requests (0)")
    add_client_options(parser)
    groups = {title: parser.add_argument_group(title) for title in _NUMBERS}
    for title, numbers in _NUMBERS.items():
        _add_numbers(groups[title], numbers)
    _add_ends(groups["length"])
    _add_sampling(groups["sampling"], groups["further samplers"])
    _add_speculation(groups["speculation"])
    _add_grammars(parser)
    _add_tools(parser)
    _add_output(parser)


def _add_numbers(group: "argparse._ArgumentGroup", numbers: Mapping[str, str]) -> None:
    for name, text in numbers.items():
        kind = get_args(_HINTS[name])[0]
        group.add_argument(_flag(name), type=kind, metavar="N" if kind is int else "X", help=text)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _add_ends(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--stop", action="append", metavar="TEXT", help="end before this text; several may be given")
    group.add_argument(
        "--stop-on-loop",
        nargs=2,
        type=int,
        metavar=("WINDOW", "REPETITIONS"),
        help="end when the last WINDOW tokens repeat one run of tokens REPETITIONS times",
    )
    _add_flag(group, "ignore_eos", "continue after an end-of-sequence token")
    _add_flag(group, "include_stop", "print the text or token that ended the answer")
    group.add_argument("--time-limit", type=float, metavar="SECONDS", help="let the server end the text by then")
    group.add_argument("--timeout", type=float, metavar="SECONDS", help="end after this time, with the text so far")


def _add_sampling(group: "argparse._ArgumentGroup", further: "argparse._ArgumentGroup") -> None:
    group.add_argument("--negative-prompt", metavar="TEXT", help="what --guidance-scale guides the text away from")
    heal = "draw the prompt's last token anew, among the tokens that begin with its text"
    _add_flag(group, "heal", heal)
    order = "the samplers to apply, in this order, such as top_k,temperature (all)"
    further.add_argument("--samplers", type=_read_names, metavar="A,B,…", help=order)


def _add_speculation(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--speculation",
        choices=("auto", "never", "always"),
        help="when to predict tokens: auto (only where it is faster), never or always; the text is the same (auto)",
    )
    group.add_argument(
        "--no-lookup",
        dest="lookup",
        action="store_false",
        default=None,
        help="do not predict tokens from repetitions in the text",
    )


def _add_grammars(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("form of the text", "one at most")
    grammars = group.add_mutually_exclusive_group()
    grammars.add_argument("--json-schema", metavar="JSON", help="a value of this schema")
    grammars.add_argument("--regex", metavar="REGEX", help="a text that matches this")
    grammars.add_argument("--lark", metavar="GRAMMAR", help="a text of this grammar's start rule")
    grammars.add_argument("--choice", action="append", metavar="TEXT", help="one of the texts given so")
    _add_flag(group, "prefer_end", "end as soon as the form allows it")


def _add_tools(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("conversations", "with --chat")
    group.add_argument("--tools", type=_read_json, metavar="FILE", help="a JSON list of tools, as in OpenAI's API")
    group.add_argument("--tool-choice", metavar="CHOICE", help="auto, none, required, or the tool to call (auto)")
    group.add_argument(
        "--single-call",
        dest="parallel_tool_calls",
        action="store_false",
        default=None,
        help="allow at most one tool call",
    )
    group.add_argument(
        "--template-variables", type=json.loads, metavar="JSON", help='such as {"enable_thinking": false}'
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is printed", "beside the text")
    rows = "each token with its log-probabilities, its rank, and the entropy of its distribution"
    _add_flag(group, "logprobs", rows)
    _add_flag(group, "prompt_logprobs", "the tokens of the prompt too")
    group.add_argument("--top-candidates", type=int, metavar="N", help="the N best candidates below each token")
    proof = "write the answer with all that it depends on to this file, for `outrider verify`"
    group.add_argument("--proof", type=Path, metavar="FILE", help=proof)


def _add_flag(group: "argparse._ArgumentGroup", name: str, text: str) -> None:
    group.add_argument(_flag(name), action="store_true", default=None, help=text)


def _read_names(text: str) -> list[str]:
    return text.split(",")


def _read_json(path: str) -> object:
    return json.loads(Path(path).read_text())
