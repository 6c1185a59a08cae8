"""The table of docs/use/samplers-elsewhere.md: how many rows differ from a peer's, and why."""

from collections.abc import Mapping

from tests.e2e.harness.models import ROOT
from tests.peers.cases import Tally

PAGE = ROOT / "docs" / "use" / "samplers-elsewhere.md"
_HEAD = "| peer | sampler | compared | rows | other | why |\n"


def name_of(peer: str, sampler: str) -> str:
    """How a line of the table begins."""
    return f"| {peer} | {sampler.replace('_1', ' 1').replace('_2', ' 2').replace('_', '-')} |"


def write(tallies: Mapping[tuple[str, str, str], Tally]) -> None:
    """Put what was counted, by peer, sampler and what is compared of it, at the end of the page."""
    before, _, _ = PAGE.read_text().partition(_HEAD)
    lines = [_line(*case, tally) for case, tally in tallies.items()]
    PAGE.write_text(before + _HEAD + "|---|---|---|---|---|---|\n" + "".join(lines))


def _line(peer: str, sampler: str, compared: str, tally: Tally) -> str:
    why = "; ".join(f"{reason} ({count:,})" for reason, count in tally.reasons.most_common())
    return f"{name_of(peer, sampler)} {compared} | {tally.rows:,} | {tally.reasons.total():,} | {why} |\n"
