"""Contract: whether vLLM's contract is served, and by what."""

import importlib.util
import logging
from typing import TYPE_CHECKING

from services.engine.config import ConfigError

if TYPE_CHECKING:
    from services.target.api.servicer import GenerationServicer
    from services.target.vllm_contract.servicer import VllmEngineServicer

logger = logging.getLogger(__name__)

SERVICE = "vllm.grpc.engine.VllmEngine"
_STUBS = "smg_grpc_proto"
_REMEDY = "pip install 'outrider[vllm]'"


def open_contract(is_wanted: bool | None, generation: "GenerationServicer") -> "VllmEngineServicer | None":
    """What serves the contract by the generation service, or None where it is not wanted.

    Where nobody has said, it is wanted if its stubs are installed. Raises ConfigError for wanted
    ones that are not.
    """
    is_installed = importlib.util.find_spec(_STUBS) is not None
    if is_wanted and not is_installed:
        raise ConfigError(f"vllm_contract is wanted, but its stubs are not installed; they come with: {_REMEDY}")
    if not is_installed and is_wanted is None:
        logger.info("vLLM's gRPC contract is not served: its stubs are not installed (%s)", _REMEDY)
    if is_wanted is False or not is_installed:
        return None
    from services.target.vllm_contract.servicer import VllmEngineServicer

    return VllmEngineServicer(generation)
