"""The order in which predictors are asked."""

import sys

from services.target.speculation.policy.policy_config import LookupConfig
from services.target.speculation.predictors.context_index import ContextIndex
from services.target.speculation.predictors.lookup_predictor import LookupPredictor
from services.target.speculation.predictors.predictor import Predictor


def with_lookup(*drafts: Predictor, config: LookupConfig | None = None) -> list[Predictor]:
    """Long matches of the lookup, the drafts, and short matches.

    Long and short ones are two predictors, as the ones may pay where the others do not.
    """
    index, shortest = ContextIndex(), (config or LookupConfig()).long_match
    long, short = (LookupPredictor(index, lengths=each) for each in (range(shortest, sys.maxsize), range(1, shortest)))
    return [long, *drafts, short]
