"""Write the picture of the architecture and the table of all packages: `python -m scripts.picture`."""

from pathlib import Path

from scripts.picture.drawing import draw
from scripts.picture.table import with_table

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    page = ROOT / "docs" / "inside" / "packages.md"
    (ROOT / "docs" / "pictures" / "architecture.svg").write_text(draw(ROOT))
    page.write_text(with_table(page.read_text(), ROOT))
