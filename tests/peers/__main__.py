"""python -m tests.peers: fetches the peers' samplers, compares each over 10,000 rows, and writes the docs' table."""

import sys

from tests.peers import page
from tests.peers.cases import EXLLAMA, EXLLAMA_CASES, LLAMA_CASES, UNEXPLAINED, Tally
from tests.peers.comparison import compared
from tests.peers.draws import compared_draws
from tests.peers.exllama_samplers import ExllamaSamplers
from tests.peers.llama_samplers import LlamaSamplers
from tests.peers.sources import install

ROWS = 10_000


def main() -> int:
    """Return 1 where a difference has no known reason."""
    install()
    tallies = dict[tuple[str, str, str], Tally]()
    for cases, peer in ((LLAMA_CASES, LlamaSamplers()), (EXLLAMA_CASES, exllama := ExllamaSamplers())):
        for case in cases:
            tally = tallies[case.peer, case.name, case.what] = compared(case, peer, ROWS)
            print(case.peer, case.name, dict(tally.reasons), flush=True)
    tallies[EXLLAMA, "skew", "draws"] = compared_draws(exllama, ROWS)
    page.write(tallies)
    return int(any(UNEXPLAINED in tally.reasons for tally in tallies.values()))


sys.exit(main())
