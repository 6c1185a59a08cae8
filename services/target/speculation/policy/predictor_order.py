"""The order in which predictors are asked."""

import sys

from services.target.speculation.policy.policy_config import LookupConfig
from services.target.speculation.predictors.context_index import ContextIndex
from services.target.speculation.predictors.lookup_predictor import LookupPredictor
from services.target.speculation.predictors.predictor import Predictor


def with_lookup(*drafts: Predictor, config: LookupConfig | None = None) -> list[Predictor]:
    """The lookup of long matches, the drafts, and the lookup of short matches.

    Long and short matches are two predictors, since the one may pay when the other does not.
    """
    index, shortest = ContextIndex(), (config or LookupConfig()).long_match
    long, short = (LookupPredictor(index, lengths=each) for each in (range(shortest, sys.maxsize), range(1, shortest)))
    return [long, *drafts, short]
