"""Serving: the objects that serve one loaded model."""

from dataclasses import dataclass

from services.target.generation.engine import TargetEngine
from services.target.metrics.request_statistics import RequestStatistics
from services.target.metrics.target_load import TargetLoad
from services.target.models.admissions import Admissions
from services.target.models.served_model import ServedModel
from services.target.sessions.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Serving:
    """Each model admits its requests with its own `admissions`, and counts them in its own `statistics`."""

    engine: TargetEngine
    model: ServedModel
    admissions: Admissions
    statistics: RequestStatistics
    load: TargetLoad
    sessions: Sessions
