"""outrider completion: what a shell offers after the words typed so far."""

import subprocess
import sys

import pytest

from services.cli import main

pytestmark = pytest.mark.process

_ASK = """
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
$(complete -p outrider | sed 's/.*-F \\([^ ]*\\).*/\\1/') outrider "${{COMP_WORDS[COMP_CWORD]}}" ""
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("outrider gene", {"generate"}),
        ("outrider generate --temp", {"--temperature", "--template-variables"}),
        ("outrider target --kv-b", {"--kv-blocks"}),
        ("outrider completion z", {"zsh"}),
        ("outrider admin dra", {"drain"}),
    ],
)
def test_bash_is_offered_commands_options_and_choices(
    words: str, offered: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = script("bash", capsys) + _ASK.format(words=words)
    done = subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, text=True, check=True)
    assert {word.strip() for word in done.stdout.split()} >= offered
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_offered_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    written = script(shell, capsys)
    for word in ("generate", "chat", "bench", "temperature", "kv-blocks"):
        assert word in written


def test_a_missing_shtab_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert capsys.readouterr().err.endswith("it comes with: pip install 'outrider[completion]'\n")
