"""Usage: an answer's token counts and speculative decoding metrics, in the format of OpenAI's API and similar ones."""

from collections.abc import Sequence as Seq
from itertools import zip_longest
from typing import Any

from outrider import Result
from services.gateway.generation.writer import choices_of


def usage_of(results: Seq[Result]) -> dict[str, Any]:
    """Return the numbers of input and output tokens; a prompt's tokens count once for all its samples."""
    choices = choices_of(results)
    prompt = sum(result.usage.prompt_tokens for result in results)
    completion = sum(choice.usage.completion_tokens for choice in choices)
    predicted = sum(choice.speculation.predicted for choice in choices)
    accepted = sum(choice.speculation.accepted for choice in choices)
    reasoning = sum(choice.usage.reasoning_tokens for choice in choices)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(result.usage.cached_tokens for result in results)},
        "completion_tokens_details": {
            "reasoning_tokens": reasoning,
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": predicted - accepted,
        },
    }


def metrics_of(results: Seq[Result]) -> dict[str, Any]:
    """Return the speculative decoding metrics of all choices together, on the servers that finished them."""
    stats = [choice.speculation for choice in choices_of(results)]
    steps = sum(one.num_spec_steps for one in stats)
    predicted, accepted = sum(one.predicted for one in stats), sum(one.accepted for one in stats)
    histograms = zip_longest(*(one.acceptance_histogram for one in stats), fillvalue=0)
    return {
        "speculative_decoding": {
            "mean_acceptance_length": 1 + accepted / steps if steps else 0.0,
            "draft_acceptance_rate": accepted / predicted if predicted else 0.0,
            "acceptance_histogram": [sum(counts) for counts in histograms],
            "num_spec_steps": steps,
            "num_draft_tokens": predicted,
            "num_accepted_draft_tokens": accepted,
        }
    }
