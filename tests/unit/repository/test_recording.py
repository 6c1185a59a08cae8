"""A recording shows what a command wrote, where a terminal puts it, in the order in which it came."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from scripts.recording.recorder import Output, record
from scripts.recording.screen import Run, read_screen

pytestmark = pytest.mark.process

WRITES = """
import sys, time
from services.cli.terminal import Terminal
out = Terminal(sys.stdout)
out.heading("── first ──")
out.text("a < b & ")
time.sleep(1.0)
sys.stdout.write("\\033[32mä long\\033[0m")
sys.stdout.flush()
out.text(" line\\n")
sys.exit({code})
"""


def test_a_command_is_recorded_as_on_a_terminal(tmp_path: Path):
    picture = tmp_path / "picture.svg"
    command = [sys.executable, "-m", "scripts.recording", str(picture), "--title", "<t>", "--columns", "12", "--"]
    subprocess.run([*command, sys.executable, "-c", WRITES.format(code=0)], check=True)
    texts = [(text.text, text.get("class")) for text in ET.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert texts == [
        ("<t>", "title"),
        ("── first ──", "bold"),
        ("a < b & ", None),
        ("ä lo", "green"),
        ("ng", "green"),
        (" line", None),
    ]
    moments = [float(second) for second in re.findall(r"animation-delay:([\d.]+)s", picture.read_text())]
    assert moments == sorted(moments)
    assert moments[2] - moments[1] >= 0.15  # what a program waits is seen, however late what it wrote before is read


def test_a_failed_command_is_not_drawn(tmp_path: Path):
    picture = tmp_path / "picture.svg"
    command = [sys.executable, "-m", "scripts.recording", str(picture), "--title", "t", "--"]
    command += [sys.executable, "-c", WRITES.format(code=3)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "long" in done.stderr
    assert not picture.exists()


def test_output_cut_into_pieces_is_joined():
    outputs = [Output(0.0, "a\x1b"), Output(0.5, "[3"), Output(1.0, "2mb\r"), Output(2.0, "\nc")]
    assert read_screen(outputs, 80) == [
        Run(0, 0, "a", "", 0.0),
        Run(0, 1, "b", "green", 1.0),
        Run(1, 0, "c", "green", 2.0),
    ]


@pytest.mark.parametrize("control", ["\x1b[2J", "\t", "\x1b[33m", "\rx"])
def test_cursor_movements_are_refused(control: str):
    with pytest.raises(ValueError, match="cannot be drawn"):
        read_screen([Output(0.0, f"a{control}b")], 80)


def test_a_missing_command_is_an_error():
    with pytest.raises(FileNotFoundError):
        record(["/no/such/command"], 80)
