"""Serving: what there is to serve a model with once it is loaded."""

from dataclasses import dataclass

from services.target.generation.engine import TargetEngine
from services.target.metrics.request_statistics import RequestStatistics
from services.target.metrics.target_load import TargetLoad
from services.target.models.admissions import Admissions
from services.target.models.served_model import ServedModel
from services.target.sessions.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Serving:
    """One model's; its requests are admitted by its own `admissions`, and counted in its own `statistics`."""

    engine: TargetEngine
    model: ServedModel
    admissions: Admissions
    statistics: RequestStatistics
    load: TargetLoad
    sessions: Sessions
