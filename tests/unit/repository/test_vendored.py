"""Files of other projects are the published ones, and come with their licences."""

import hashlib
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
VENDOR = ROOT / "services/gateway/page/files/vendor"


def test_vendored_files_are_the_pinned_ones() -> None:
    pinned = {
        f"{name}/{file}": digest
        for name, project in tomllib.loads((VENDOR / "vendored.toml").read_text()).items()
        for file, digest in project["files"].items()
    }
    found = {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.glob("*/*")
    }
    assert found == pinned


def test_distributions_have_the_licences_of_vendored_files() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    licences = {path.relative_to(ROOT).as_posix() for path in VENDOR.glob("*/LICENSE")}
    assert licences < {*project["license-files"]}
