"""Write the pages as a site: `python -m scripts.site [FOLDER]`, which `make docs` does (needs zensical).

GitHub reads the same pages where they are. A link that leads out of docs/ to another page leads to its copy in the
site; one that leads to a source file becomes its name, since the site has no sources.
"""

import re
import shutil
import subprocess
import sys
from os.path import relpath
from pathlib import Path

ROOT = Path(__file__).parents[1]
_OUTSIDE = ("CONTRIBUTING.md", "README.md", "clients/README.md", "clients/llm/README.md", "clients/python/README.md")
_LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\])\(([^)\s#]*)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Write it, and fail for a link that leads nowhere; returns the exit code."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source / "docs")
    for page in ROOT.glob("docs/**/*.md"):
        _write(page, source / "docs")
    for name in _OUTSIDE:
        _write(ROOT / name, source / "docs")
    shutil.copy(ROOT / "zensical.toml", source)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(source / "zensical.toml")]
    return subprocess.run(command, check=False).returncode


def _write(page: Path, docs: Path) -> None:
    """One page with links as they are in the site."""
    place = _place(page)
    assert place is not None
    (docs / place).parent.mkdir(parents=True, exist_ok=True)
    parts = _FENCED.split(page.read_text())
    text = "".join(part if part.startswith("```") else _linked(part, page, place) for part in parts)
    (docs / place).write_text(text)


def _linked(text: str, page: Path, place: Path) -> str:
    def link(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if not target or "://" in target:
            return match[0]
        there = _place((page.parent / target).resolve())
        return label.strip("![]") if there is None else f"{label}({relpath(there, place.parent)}{anchor})"

    return _LINK.sub(link, text)


def _place(path: Path) -> Path | None:
    """Where a file of the repository is in the site; None for one that is not."""
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    if name.parts[:1] == ("docs",):
        return Path(*name.parts[1:])
    return Path("repository", name) if name.as_posix() in _OUTSIDE else None


if __name__ == "__main__":
    sys.exit(main())
