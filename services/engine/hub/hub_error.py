"""HubError: a model cannot be downloaded, and what to do about it."""

from huggingface_hub import constants, is_offline_mode
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.hub.hub_name import HubName

_LOG_IN = "set HF_TOKEN, or run `hf auth login`"
_UNAUTHORIZED = 401


class HubError(CheckpointError):
    """The message is one sentence that names the model, the problem, and what to do."""


class SeveralFilesError(HubError):
    """A name matches several files, which the message lists."""


def explain(error: Exception, name: HubName) -> HubError:
    """Return the HubError for an error of the library, its HTTP client or the file system."""
    page, cache = f"{constants.ENDPOINT}/{name.repository}", constants.HF_HUB_CACHE
    absent = f"is not a local folder or file, and not completely in the cache {cache}"
    match error:
        case GatedRepoError():
            text = f"its owners must grant access: ask for it on {page}, then {_LOG_IN} with a token of that account"
        case RepositoryNotFoundError():
            text = f"is not a local folder or file, and there is no such model on {page}; for a private one {_LOG_IN}"
        case RevisionNotFoundError():
            text = f"{page} has no branch, tag or commit {name.revision!r}"
        case RemoteEntryNotFoundError():
            text = f"its repository lacks a file that another one names ({_brief(error)})"
        case HfHubHTTPError() if error.response.status_code == _UNAUTHORIZED:
            text = f"{constants.ENDPOINT} does not accept the token that is set: {_LOG_IN} with another one"
        case OSError() if error.errno is not None:
            text = f"cannot be kept in the cache {cache}: {error.strerror}; make room there, or set HF_HOME to another"
        case _ if is_offline_mode():
            text = (
                f"{absent}, and HF_HUB_OFFLINE forbids to download it: unset that, or run `outrider pull {name}` while "
                f"there is a network"
            )
        case _:
            text = (
                f"{absent}, and {constants.ENDPOINT} does not serve it ({_brief(error)}): check the network and "
                f"HF_ENDPOINT, and try again"
            )
    return HubError(f"{name}: {text}")


def _brief(error: BaseException) -> str:
    """Return the first error of a chain, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
