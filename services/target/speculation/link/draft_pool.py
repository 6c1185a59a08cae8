"""DraftPool: the drafts of one target: a link to each, and each sequence with one of them."""

import asyncio
from collections.abc import Callable
from collections.abc import Sequence as Seq
from functools import partial

from services.engine.decoder.compute_resources import ComputeResources
from services.target.speculation.link.draft_client import DraftClient
from services.target.speculation.link.draft_spread import DraftSpread
from services.target.speculation.link.shared_predictor import SharedPredictor
from services.target.speculation.policy.policy_config import DraftConfig
from services.target.speculation.predictors.predictor import Predictor


class DraftPool:
    """Each draft has a link, a predictor and so a length controller of its own: what is measured of one says nothing of
    another.
    """

    def __init__(
        self,
        addresses: Seq[str],
        resources: ComputeResources,
        config: DraftConfig,
        *,
        run_ahead: int | None = None,
        num_alternates: int = 0,
        on_linked: Callable[[str], None],
    ) -> None:
        """Call this on the event loop that `start` is called on; an address that is given twice is one draft.
        `on_linked` is called with an address whenever its draft has come. For the rest see DraftClient.
        """
        self.addresses = [*dict.fromkeys(addresses)]
        self._clients = [
            DraftClient(
                address,
                resources,
                config,
                run_ahead=run_ahead,
                num_alternates=num_alternates,
                hears_load=len(self.addresses) > 1,
                on_linked=partial(on_linked, address),
            )
            for address in self.addresses
        ]
        self.remotes = [client.predictor for client in self._clients]
        self.predictors: Seq[Predictor] = self.remotes
        if len(self.remotes) > 1:
            spread = DraftSpread(self.remotes)
            self.predictors = [SharedPredictor(remote, spread) for remote in self.remotes]

    @property
    def is_linked(self) -> bool:
        """Whether there is any draft."""
        return not all(remote.absence for remote in self.remotes)

    def start(self, *, vocabulary: str, vocab_size: int) -> None:
        """Begin to keep the links up; `vocabulary` is the fingerprint of the target's, which the drafts must know."""
        for client in self._clients:
            client.start(vocabulary=vocabulary, vocab_size=vocab_size)

    async def stop(self) -> None:
        """Give the links up."""
        await asyncio.gather(*(client.stop() for client in self._clients))
