"""Write docs/architecture.svg, and the table of the packages in docs/architecture.md: `python -m scripts.picture`."""

from pathlib import Path

from scripts.picture.drawing import draw
from scripts.picture.table import with_table

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    page = ROOT / "docs" / "architecture.md"
    page.with_suffix(".svg").write_text(draw(ROOT))
    page.write_text(with_table(page.read_text(), ROOT))
