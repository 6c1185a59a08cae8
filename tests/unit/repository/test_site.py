"""The pages as a site: every link leads somewhere, every page can be found, and nothing is fetched from elsewhere."""

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
_FETCHED = re.compile(r"""<(?:link|script|img|iframe|source)\b[^>]*?(?:href|src)=["']?((?:https?:)?//[^"' >]+)""")
_IMPORTED = re.compile(r"""(?:@import|url\()\s*["']?((?:https?:)?//[^"')]+)""")


def found_in(navigation: list[dict[str, object]]) -> set[str]:
    """All pages that a navigation leads to."""
    pages = set()
    for entry in navigation:
        for target in entry.values():
            pages |= found_in(target) if isinstance(target, list) else {str(target)}
    return pages


def test_every_page_can_be_found():
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md")}
    found = {page for page in found_in(navigation) if not page.startswith("repository/")}
    assert found == pages, "zensical.toml lists every page"


@pytest.mark.skipif(find_spec("zensical") is None, reason="NOT CHECKED whether the site can be built: no zensical")
def test_the_site_is_built_and_needs_no_network(tmp_path: Path):
    folder = tmp_path / "docs"
    done = subprocess.run(
        [sys.executable, "-m", "scripts.site", str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    site = folder / "site"
    wanted = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in ROOT.glob("docs/**/*.md")}
    assert [page for page in sorted(wanted) if not (site / page).is_file()] == []
    texts = [page.read_text() for kind in ("html", "css") for page in site.glob(f"**/*.{kind}")]
    assert {url for text in texts for url in _FETCHED.findall(text) + _IMPORTED.findall(text)} == set()


@pytest.mark.skipif(
    find_spec("starlette") is None, reason="NOT CHECKED whether the pages about HTTP are up to date: no starlette"
)
@pytest.mark.parametrize(("script", "page"), [("http_docs", "http-reference.md"), ("http_fields", "http-fields.md")])
def test_the_pages_about_http_are_up_to_date(tmp_path: Path, script: str, page: str):
    subprocess.run([sys.executable, "-m", f"scripts.{script}", str(tmp_path / "page.md")], cwd=ROOT, check=True)
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs/use" / page).read_text(), "run `make docs`"
