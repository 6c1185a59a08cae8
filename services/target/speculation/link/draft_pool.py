"""DraftPool: the drafts of one target: a link to each of them; each sequence is given to one of them."""

import asyncio
from collections.abc import Callable
from collections.abc import Sequence as Seq
from contextlib import suppress
from functools import partial

from services.engine.decoder.compute_resources import ComputeResources
from services.service.access.credential_files import Credentials
from services.target.speculation.link.draft_client import DraftClient
from services.target.speculation.link.draft_links import DraftLinks, LinkState
from services.target.speculation.link.draft_spread import DraftSpread
from services.target.speculation.link.remote_predictor import RemotePredictor
from services.target.speculation.link.shared_predictor import SharedPredictor
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.predictor import DraftPredictor


class DraftPool:
    """Each draft has its own link, predictor and length controller: measurements of one do not apply to another."""

    def __init__(
        self,
        addresses: Seq[str],
        resources: ComputeResources,
        config: PolicyConfig,
        *,
        credentials: Callable[[], Credentials] = Credentials,
        run_ahead: int | None = None,
        num_alternates: int = 0,
        is_open: bool = False,
        on_linked: Callable[[str], None],
    ) -> None:
        """Call this on the event loop that `start` is called on. An address that is given twice is one draft.

        With `is_open` drafts may be added and removed later. `on_linked` is called with the address of each new link.
        For the other arguments see DraftClient.
        """
        different = [*dict.fromkeys(addresses)]
        self._is_shared = is_shared = is_open or len(different) > 1
        self._connect = partial(
            DraftClient,
            resources=resources,
            config=config,
            credentials=credentials,
            run_ahead=run_ahead,
            num_alternates=num_alternates,
            hears_load=is_shared,
        )
        self._on_linked, self._longest_try = on_linked, config.draft_wait
        self._clients = {
            address: self._connect(address, on_linked=partial(on_linked, address)) for address in different
        }
        self._vocabulary, self._vocab_size, self._useless_of_gone = "", 0, 0
        self.remotes = [client.predictor for client in self._clients.values()]
        self._spread = DraftSpread(self.remotes)
        self._shared = {address: self._share(address) for address in different}

    @property
    def predictors(self) -> Seq[DraftPredictor]:
        """The predictors for a new engine."""
        return [self._shared[address] for address in self._clients] if self._is_shared else self.remotes

    @property
    def is_linked(self) -> bool:
        """Whether any draft is linked."""
        return not all(remote.absence for remote in self.remotes)

    def links(self) -> DraftLinks:
        """The links to the current drafts; for any thread."""
        by_address = {address: _state(client.predictor) for address, client in self._clients.copy().items()}
        useless_tokens = sum(each.counts.useless_tokens for each in by_address.values())
        return DraftLinks(by_address, self._useless_of_gone + useless_tokens)

    @property
    def absences(self) -> dict[str, str]:
        """For every address the reason why its draft is not linked; empty if it is."""
        return {address: client.predictor.absence for address, client in self._clients.items()}

    def start(self, *, vocabulary: str, vocab_size: int) -> None:
        """Begin to keep the links; `vocabulary` is the fingerprint of the target's, which the drafts must know."""
        self._vocabulary, self._vocab_size = vocabulary, vocab_size
        for client in self._clients.values():
            client.start(vocabulary=vocabulary, vocab_size=vocab_size)

    async def first_tries(self) -> None:
        """Wait until each draft is linked or was not there, for a limited time."""
        tries = [client.tried.wait() for client in self._clients.values()]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*tries), self._longest_try)

    def add(self, address: str) -> DraftPredictor:
        """Link to another draft from now on; it is given sequences once it is admitted."""
        client = self._clients[address] = self._connect(address, on_linked=partial(self._on_linked, address))
        client.start(vocabulary=self._vocabulary, vocab_size=self._vocab_size)
        shared = self._shared[address] = self._share(address)
        return shared

    async def remove(self, address: str) -> None:
        """End the link to a draft that was dismissed."""
        client = self._clients.pop(address)
        del self._shared[address]
        self._useless_of_gone += client.predictor.counts.useless_tokens
        await client.stop()

    def predictor_at(self, address: str) -> SharedPredictor:
        """The predictor of the draft at an address."""
        return self._shared[address]

    def admit(self, address: str) -> None:
        """Give sequences to a draft that was added; for the engine thread."""
        self.remotes.append(self._clients[address].predictor)

    def dismiss(self, address: str) -> None:
        """Give no more sequences to a draft; for the engine thread."""
        self.remotes.remove(self._clients[address].predictor)

    async def stop(self) -> None:
        """End all links."""
        await asyncio.gather(*(client.stop() for client in self._clients.values()))

    def _share(self, address: str) -> SharedPredictor:
        return SharedPredictor(self._clients[address].predictor, self._spread)


def _state(predictor: RemotePredictor) -> LinkState:
    return LinkState(predictor.absence, predictor.num_arrivals, predictor.granted, predictor.counts)
