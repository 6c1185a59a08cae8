"""Record a command as a picture: `python -m scripts.recording docs/pictures/chat.svg --title TITLE -- COMMAND`."""

import argparse
import sys
from pathlib import Path

from scripts.recording.drawing import draw
from scripts.recording.recorder import record
from scripts.recording.screen import read_screen

COLUMNS = 100


def main() -> int:
    """Run the command and draw what it wrote; returns its exit code, and draws nothing where it failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path, help="the SVG to write")
    parser.add_argument("--title", required=True, help="what stands above the picture")
    parser.add_argument("--columns", type=int, default=COLUMNS, metavar="N", help="of the terminal (%(default)s)")
    parser.add_argument("command", nargs="+", help="the command to record, after --")
    arguments = parser.parse_args()
    recording = record(arguments.command, arguments.columns)
    if recording.exit_code == 0:
        screen = read_screen(recording.outputs, arguments.columns)
        arguments.picture.write_text(draw(screen, arguments.title, arguments.columns), encoding="utf-8")
    else:
        sys.stderr.write("".join(output.text for output in recording.outputs))
    return recording.exit_code


if __name__ == "__main__":
    sys.exit(main())
