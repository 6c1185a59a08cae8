"""The picture of the architecture shows which package uses which, but for arrows that follow from the others."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from scripts import sampler_picture
from scripts.picture.drawing import draw
from scripts.picture.layout import Box, Layout
from scripts.picture.rooms import read_house
from scripts.picture.table import with_table

FILES = {
    "services/cli/__init__.py": 'COMMANDS = {"top": "services.top.command"}',
    "services/top/command.py": "from services.middle import work\nfrom services.bottom.tools import tool",
    "services/middle/work.py": "import services.bottom.tools",
    "services/middle/inner/part.py": "",
    "services/bottom/tools.py": "from services.bottom.native._native import Decoder",
    "services/bottom/native/__init__.py": "",
    "native/bindings/module.cpp": '#include "outrider/decoder.h"',
    "native/include/outrider/decoder.h": "#pragma once",
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def arrows(box: Box) -> set[tuple[str, str]]:
    """Who uses whom, by name, in a box and all that is in it."""
    own = {(arrow[0].room.name, arrow[-1].room.name) for arrow in box.arrows if arrow[0].room and arrow[-1].room}
    return own.union(*map(arrows, box.boxes))


def test_an_arrow_that_follows_from_others_is_left_out(tmp_path: Path):
    root = write(tmp_path, FILES)
    house = read_house(root)
    box = Layout(house, root).box(house, 800)
    steps = {("cli", "top"), ("top", "middle"), ("middle", "bottom"), ("bottom", "native"), ("bindings", "include")}
    assert arrows(box) == steps


def test_a_user_stands_above_its_package_without_overlaps(tmp_path: Path):
    root = write(tmp_path, FILES)
    house = read_house(root)
    box = Layout(house, root).box(house, 800)
    for arrow in box.arrows:
        assert arrow[0].y + arrow[0].height < arrow[-1].y
    ends = [inner.y + inner.height for inner in box.boxes]
    assert max(ends) < box.height


def test_a_circle_is_refused(tmp_path: Path):
    root = write(tmp_path, FILES | {"services/bottom/tools.py": "import services.top.command"})
    with pytest.raises(ValueError, match="bottom, cli, middle, native, top use one another in a circle"):
        draw(root)


def test_a_room_may_name_another_that_imports_it(tmp_path: Path):
    root = write(
        tmp_path, FILES | {"services/cli/parts.py": "", "services/top/command.py": "import services.cli.parts"}
    )
    house = read_house(root)
    assert {("top", "cli")} == {arrow for arrow in arrows(Layout(house, root).box(house, 800)) if "cli" in arrow}


def test_a_new_import_changes_the_picture_and_it_is_xml(tmp_path: Path):
    before = draw(write(tmp_path / "one", FILES))
    after = draw(write(tmp_path / "two", FILES | {"services/middle/work.py": ""}))
    assert before != after
    assert ET.fromstring(after).tag.endswith("svg")


def test_the_package_table_is_sorted_and_replaces_the_old_one(tmp_path: Path):
    packages = ("bottom", "middle", "middle/inner", "top")
    docstrings = {f"services/{name}/__init__.py": f'"""What is in {name}.\n\nMore."""' for name in packages}
    root = write(tmp_path, FILES | docstrings)
    page = with_table("# A\n\n| package | what is in it |\n|---|---|\n| gone | since long |\n\nB\n", root)
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    assert [row.split("`")[1] for row in rows] == ["cli", "top", "middle", "middle/inner", "bottom", "bottom/native"]
    assert rows[1] == "| [`top`](../../services/top) | What is in top. |"
    assert page.startswith("# A\n\n| package")
    assert page.endswith("|\n\nB\n")
    assert "gone" not in page


def test_the_picture_of_the_samplers_is_up_to_date() -> None:
    told = sampler_picture.PICTURE.read_text()
    assert told == sampler_picture.draw(), "run `python -m scripts.sampler_picture`"
