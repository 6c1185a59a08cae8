"""The README's chart: bars as long as rates, and whether each engine's draft changed its tokens."""

import xml.etree.ElementTree as ET
from typing import Any

from benchmarks.chart import draw_chart


def figures(rate: float, *, num_equal: int = 3) -> dict[str, Any]:
    return {"rate": {"median": rate}, "num_equal": num_equal, "num_answers": 3}


def test_the_chart_shows_our_auto_mode_and_a_peers_best() -> None:
    ours = {"plain": figures(10.0), "auto": figures(20.0), "k = 3": figures(25.0)}
    peer = {"plain": figures(5.0), "k = 3": figures(8.0), "k = 5": figures(9.0, num_equal=1)}
    services = {"ways": ours, "peers": {"an <engine> bf16": peer}}
    chart = ET.fromstring(draw_chart({"formats": {"bf16": {"services": {"shared": services}}}}))
    widths = [float(each.get("width", "")) for each in chart.iter() if each.tag.endswith("rect")]
    assert [width / widths[0] for width in widths] == [1.0, 2.0, 0.5, 0.9]
    texts = [each.text for each in chart.iter() if each.tag.endswith("text")]
    assert texts[1:5] == ["Outrider", "10.0 → 20.0 · same tokens", "an <engine>", "5.0 → 9.0 · other tokens"]
