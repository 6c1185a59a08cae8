"""TopView: two scrapes of a target as a screen."""

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from services.cli.top.scrape import Scrape
from services.service.printable import printable

_MOST_CALLERS = 10


class TopView:
    """The rates between two scrapes, and the state at the later one."""

    def __init__(self, before: Scrape, now: Scrape) -> None:
        self._before, self._now = before, now
        self._seconds = max(now.moment - before.moment, 1e-9)

    def render(self) -> Group:
        """Return all panels of the screen."""
        parts = [self._requests(), self._speculation(), self._links(), self._blocks(), self._callers()]
        models = ", ".join(map(printable, self._now.by("model_name", "num_requests_running")))
        panels = (Panel(table, title=title, title_align="left") for title, table in parts)
        return Group(Text(f"{models} · q ends"), *panels)

    def _rate(self, name: str, **labels: str) -> float:
        return (self._now.total(name, **labels) - self._before.total(name, **labels)) / self._seconds

    def _requests(self) -> tuple[str, Table]:
        now = self._now
        running, waiting = now.total("num_requests_running"), now.total("num_requests_waiting")
        tokens, prompts = self._rate("generation_tokens_total"), self._rate("prompt_tokens_total")
        values = {
            "running": f"{running:.0f}",
            "waiting": f"{waiting:.0f}",
            "tokens/s": f"{tokens:.1f}",
            "prompt tokens/s": f"{prompts:.1f}",
            "ended/s": f"{self._rate('request_success_total'):.1f}",
            "steps/s": f"{self._rate('steps_total'):.1f}",
        }
        return "requests", _table(values)

    def _speculation(self) -> tuple[str, Table]:
        rows = {}
        for source in self._now.by("source", "speculation_verified_tokens_total"):
            verified = self._rate("speculation_verified_tokens_total", source=source)
            accepted = self._rate("speculation_accepted_tokens_total", source=source)
            rows[source] = f"{accepted / verified:.0%} of {verified:.1f}/s" if verified else "-"
        passes = self._rate("sequence_passes_total")
        accepted = self._rate("spec_decode_num_accepted_tokens_total")
        rows["tokens per pass"] = f"{1 + accepted / passes:.2f}" if passes else "-"
        if taken := self._rate("speculation_seconds_total"):
            came, expected = (
                self._rate(f"speculation_{name}_total") for name in ("plain_seconds", "expected_plain_seconds")
            )
            rows["speedup"] = f"{came / taken:.2f}, expected {expected / taken:.2f}"
        return "accepted", _table(rows)

    def _links(self) -> tuple[str, Table]:
        rows = {}
        for draft, is_up in self._now.by("draft", "draft_link_up").items():
            count = self._rate("draft_link_round_trip_seconds_count", draft=draft)
            trip = self._rate("draft_link_round_trip_seconds_sum", draft=draft) / count if count else None
            losses = self._now.total("draft_link_losses_total", draft=draft)
            window = self._now.total("draft_link_window_tokens", draft=draft)
            state = "up" if is_up else "away"
            took = "-" if trip is None else f"{1000 * trip:.1f} ms"
            rows[draft] = f"{state}, lost {losses:.0f} times, round trip {took}, window {window:.0f}"
        return "drafts", _table(rows or {"none": ""})

    def _blocks(self) -> tuple[str, Table]:
        states = self._now.by("state", "kv_blocks")
        preemptions = self._now.total("num_preemptions_total")
        return "KV blocks", _table(
            {**{state: f"{count:.0f}" for state, count in states.items()}, "preemptions": f"{preemptions:.0f}"}
        )

    def _callers(self) -> tuple[str, Table]:
        callers = [*self._now.by("caller", "caller_requests")][:_MOST_CALLERS]
        running = {name: self._now.total("caller_requests", caller=name, state="running") for name in callers}
        waiting = {name: self._now.total("caller_requests", caller=name, state="waiting") for name in callers}
        rows = {name: f"{running[name]:.0f} running, {waiting[name]:.0f} waiting" for name in callers}
        return "callers", _table(rows or {"none": ""})


def _table(values: dict[str, str]) -> Table:
    """Return a table with names above their values; both come from outside, so they are made printable."""
    table = Table(box=None, pad_edge=False)
    for name in values:
        table.add_column(printable(name), justify="left")
    table.add_row(*map(printable, values.values()))
    return table
