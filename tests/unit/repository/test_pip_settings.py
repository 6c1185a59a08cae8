"""How the pip settings of a machine get into the build of an image."""

from pathlib import Path

from tests.containers.pip_settings import PipSettings


def test_only_package_sources_are_taken_and_the_environment_wins() -> None:
    listing = [":env:.find-links='/env'", ":env:.constraint='c.txt'", "global.cert='/ca'", "global.find-links='/file'"]
    assert PipSettings.parse("\n".join(listing)).values == {"cert": "/ca", "find-links": "/env"}


def test_paths_named_by_a_setting_are_mounted(tmp_path: Path) -> None:
    wheels, index = tmp_path / "wheels", tmp_path / "mirror" / "simple"
    wheels.mkdir()
    index.mkdir(parents=True)
    links, indexes = f"{wheels} {tmp_path}/nowhere", f"https://a.b {index.as_uri()}"
    mounts = [f"{tmp_path}/pip.conf:/etc/pip.conf:ro", f"{index.parent}:{index.parent}:ro", f"{wheels}:{wheels}:ro"]
    assert PipSettings({"find-links": links, "extra-index-url": indexes}).volumes(tmp_path) == mounts
    written = (tmp_path / "pip.conf").read_text()
    assert written == f"[global]\nfind-links = {links}\nextra-index-url = {indexes}\n"
