"""The distributions as pyproject.toml defines them."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_exclusions_are_named_from_the_root() -> None:
    """A bare name is left out wherever it stands: `models` took a package of that name out of every wheel."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    for path in (*settings["sdist"]["exclude"], *settings["wheel"]["exclude"]):
        assert path.startswith("/") or "/" in path.rstrip("/"), path
