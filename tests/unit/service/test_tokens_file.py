"""The file of tokens: what a line may hold, and the error for a wrong one."""

import hashlib
import json
from pathlib import Path

import pytest

from services.cli import main
from services.engine.config import ConfigError
from services.service.access.caller import Caller, CallerLimits, Scope
from services.service.access.tokens import new_token, read_callers, read_tokens

FILE = Path("tokens")
HASH = hashlib.sha256(b"secret").hexdigest()
GOOD = {"name": "alice", "sha256": HASH, "scopes": ["generate"]}


def read(*lines: object) -> dict[str, Caller]:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return {caller.name: caller for _, caller in read_tokens(text.encode(), FILE).entries}


def test_a_line_gives_name_scopes_and_limits() -> None:
    limits = {"max_streams": 4, "max_waiting_tokens": 9000, "weight": 2.5}
    other = {"name": "bob", "sha256": "A" * 64, "scopes": ["admin", "generate"], **limits}
    callers = read("# who may come in", GOOD, "", other)
    assert callers["alice"] == Caller("alice", frozenset({Scope.GENERATE}))
    assert callers["bob"] == Caller("bob", frozenset({Scope.ADMIN, Scope.GENERATE}), CallerLimits(**limits))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": ""}, "name is ''; it must be a text of 1 to 64 printable characters"),
        ({"name": "a\nb"}, "it must be a text of 1 to 64 printable characters"),
        ({"name": None}, "name is None"),
        ({"sha256": "secret"}, "sha256 must be the 64 hexadecimal digits of a token's SHA-256"),
        ({"sha256": "z" * 64}, "sha256 must be the 64 hexadecimal digits of a token's SHA-256"),
        ({"scopes": []}, "scopes is []; it must be a list of at least one of generate, admin"),
        ({"scopes": ["root"]}, "scopes is 'root'; it must be a list of at least one of generate, admin"),
        ({"scopes": "admin"}, "scopes is 'admin'"),
        ({"max_streams": 0}, "max_streams is 0; it must be an integer from 1 to 2147483648, or left out"),
        ({"max_streams": True}, "max_streams is True"),
        ({"max_waiting_tokens": 1.5}, "max_waiting_tokens is 1.5"),
        ({"weight": 0}, "weight is 0; it must be a number from 0.001 to 1000"),
        ({"weight": float("nan")}, "weight is nan"),
        ({"token": "secret"}, "'token' is not a field; allowed: name, sha256, scopes"),
    ],
)
def test_a_wrong_line_is_named_with_its_field(change: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read("", {**GOOD, **change})
    assert str(raised.value).startswith("tokens:2: ")
    assert said in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["alice"], "tokens:1: is not JSON"),
        (["[" * 100_000], "tokens:1: is not JSON"),
        (["7"], "tokens:1: must be a JSON object with the fields name, sha256"),
        ([], "tokens: holds no token"),
        (["# nobody"], "tokens: holds no token"),
        ([GOOD, {**GOOD, "name": "bob"}], "tokens: holds the same sha256 twice"),
        ([{**GOOD, "sha256": f"{number:064x}"} for number in range(1025)], "tokens:1025: at most 1024 tokens"),
        ([b"\xff\xfe".decode(errors="replace")], "tokens:1: is not JSON"),
    ],
)
def test_a_file_that_is_none_is_refused(lines: list[object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(*lines)


@pytest.mark.parametrize("data", [None, b"x" * ((1 << 20) + 1)])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "tokens"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ConfigError, match=f"{path}: (cannot be read: No such file|is larger than)"):
        read_callers(path)


def test_only_the_right_token_is_found() -> None:
    token, line = new_token("alice", [Scope.GENERATE])
    tokens = read_tokens(line.encode(), FILE)
    assert tokens.find(token) == Caller("alice", frozenset({Scope.GENERATE}))
    assert not any(tokens.find(wrong) for wrong in ("", token[:-1], f"{token}x", token.lower(), "é"))
    assert token not in line


def test_outrider_token_adds_a_line_and_prints_the_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"
    assert main(["token", "alice", "--tokens-file", str(path)]) == 0
    path.write_text(path.read_text().rstrip())  # as some editors leave it
    assert main(["token", "root", "--scope", "admin", "--scope", "generate", "--tokens-file", str(path)]) == 0
    first, second = capsys.readouterr().out.split()
    found = read_tokens(path.read_bytes(), path)
    assert [found.find(token) for token in (first, second)] == [
        Caller("alice", frozenset({Scope.GENERATE})),
        Caller("root", frozenset({Scope.ADMIN, Scope.GENERATE})),
    ]
    assert first not in path.read_text()
    path.write_text("nonsense\n")
    assert main(["token", "bob", "--tokens-file", str(path)]) == 1
    assert f"{path}:1: is not JSON" in capsys.readouterr().err
    assert path.read_text() == "nonsense\n"
