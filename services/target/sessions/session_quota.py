"""SessionQuota: limits and counts the KV blocks that sessions hold."""

from collections import Counter
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.target.sessions.session import SessionQuotaError


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Limits for all sessions together, and for those of one named owner; each block is counted once."""

    blocks: int
    blocks_each: int
    sessions: int
    sessions_each: int


class _Held:
    """The blocks that some sessions hold, and their limits."""

    def __init__(self, most_blocks: int, most_sessions: int) -> None:
        self.most_blocks, self.most_sessions = most_blocks, most_sessions
        self.num_sessions = 0
        self.holders: Counter[bytes] = Counter()

    def problem(self, blocks: Seq[bytes]) -> str | None:
        """Why one more session with these blocks would exceed a limit; None if it would not."""
        num_new, num_held = len(set(blocks) - self.holders.keys()), len(self.holders)
        if num_held + num_new > self.most_blocks:
            return f"it needs {num_new} more KV blocks, and {num_held} of {self.most_blocks} are held"
        if self.num_sessions >= self.most_sessions:
            return f"there are {self.num_sessions}, of {self.most_sessions} that may be"
        return None

    def take(self, blocks: Seq[bytes]) -> None:
        self.num_sessions += 1
        self.holders.update(blocks)

    def give_back(self, blocks: Seq[bytes]) -> None:
        self.num_sessions -= 1
        self.holders.subtract(blocks)
        for block in blocks:
            if not self.holders[block]:
                del self.holders[block]


class SessionQuota:
    """Counts the blocks of all sessions, and of each owner; those of unnamed owners, who may be anyone, only in all."""

    def __init__(self, limits: SessionLimits) -> None:
        self._limits = limits
        self._all = _Held(limits.blocks, limits.sessions)
        self._of_owner: dict[str, _Held] = {}

    @property
    def limits(self) -> SessionLimits:
        """The limits of all sessions and of each owner."""
        return self._limits

    @property
    def num_blocks(self) -> int:
        """Blocks that all sessions hold, each counted once."""
        return len(self._all.holders)

    def num_blocks_of(self, owner: str) -> int:
        """Blocks that an owner's sessions hold, each counted once."""
        return len(self._held_by(owner).holders)

    def most_blocks_of(self, owner: str) -> int:
        """Blocks that an owner's sessions may hold at most."""
        return self._held_by(owner).most_blocks

    def take(self, owner: str, blocks: Seq[bytes]) -> None:
        """Count one more session, which holds these blocks; raises SessionQuotaError if that exceeds a limit."""
        own = self._held_by(owner)
        concerned = [self._all] if own is self._all else [own, self._all]
        for held in concerned:
            if (problem := held.problem(blocks)) is not None:
                whose = "sessions" if held is self._all else "this caller's sessions"
                raise SessionQuotaError(f"{whose} hold as much as they may: {problem}", of_owner=held is not self._all)
        for held in concerned:
            held.take(blocks)
        if own is not self._all:
            self._of_owner[owner] = own

    def give_back(self, owner: str, blocks: Seq[bytes]) -> None:
        """Count one session less, which held these blocks."""
        self._all.give_back(blocks)
        if owner:
            own = self._of_owner[owner]
            own.give_back(blocks)
            if not own.num_sessions:
                del self._of_owner[owner]

    def _held_by(self, owner: str) -> _Held:
        if not owner:
            return self._all
        return self._of_owner.get(owner) or _Held(self._limits.blocks_each, self._limits.sessions_each)
