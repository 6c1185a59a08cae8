"""Contract: opens vLLM's contract if it is wanted and its stubs are installed."""

import importlib.util
import logging
from typing import TYPE_CHECKING

from services.engine.config import ConfigError

if TYPE_CHECKING:
    from services.target.api.servicer import GenerationServicer
    from services.target.contracts.subscribers import Subscribers
    from services.target.vllm_contract.servicer import VllmEngineServicer

logger = logging.getLogger(__name__)

SERVICE = "vllm.grpc.engine.VllmEngine"
_STUBS = "smg_grpc_proto"
_REMEDY = "pip install 'outrider[vllm]'"


def open_contract(
    is_wanted: bool | None, generation: "GenerationServicer", subscribers: "Subscribers"
) -> "VllmEngineServicer | None":
    """A servicer of the contract that uses the generation service; None if it is not wanted.

    With `is_wanted` None it is served if its stubs are installed. Raises ConfigError if it is wanted and they are not.
    """
    is_installed = importlib.util.find_spec(_STUBS) is not None
    if is_wanted and not is_installed:
        raise ConfigError(f"vllm_contract is wanted, but its stubs are not installed; they come with: {_REMEDY}")
    if not is_installed and is_wanted is None:
        logger.debug("vLLM's gRPC contract is not served: its stubs are not installed (%s)", _REMEDY)
    if is_wanted is False or not is_installed:
        return None
    from services.target.vllm_contract.servicer import VllmEngineServicer

    return VllmEngineServicer(generation, subscribers)
