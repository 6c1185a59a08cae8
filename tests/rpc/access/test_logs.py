"""The log lines of calls of every kind, good and bad: never a prompt, an answer or a credential."""

import logging
from pathlib import Path
from typing import Any

import pytest

from outrider import Client, GenerateOptions, InvalidArgument, OutriderError
from services.service.access.caller import Scope
from services.service.access.credential_files import CredentialFiles
from services.service.access.tokens import new_token
from services.service.server_config import ServerConfig
from tests.harness.log_scan import LogScan, betrayals, betrayals_in
from tests.harness.servers.server import target_server
from tests.rpc.harness.draft_link import RunningDraft
from tests.rpc.harness.requests import PROMPT

SECRET = "quokka wombat"  # a prompt that occurs nowhere else
OPTIONS = GenerateOptions(max_tokens=24, seed=123456789123, ignore_eos=True, speculation="always")


def call_in_every_way(client: Client) -> list[str]:
    """Generate, tokenize and be refused, with the secret in every place; returns what was answered."""
    answers = [client.generate(SECRET, **OPTIONS).text]
    ids = client.tokenize(SECRET).token_ids
    answers += [client.generate(ids, **OPTIONS).text, client.detokenize(ids).text]
    with client.stream(SECRET, **OPTIONS) as stream:
        next(iter(stream))  # and then it is cancelled
    refused: list[dict[str, Any]] = [
        {"stop": [SECRET * 1000]},
        {"lark": f'start: "{SECRET}'},
        {"regex": f"({SECRET}"},
        {"json_schema": f'{{"type": "{SECRET}"}}'},
        {"temperature": -1.0},
        {"max_tokens": 0},
    ]
    for fields in refused:
        with pytest.raises((InvalidArgument, OutriderError)):
            client.generate(SECRET, **{**OPTIONS, **fields})
    with pytest.raises(OutriderError):
        client.generate([10**9, *ids], **OPTIONS)
    client.generate(SECRET, **{**OPTIONS, "stop": [SECRET], "regex": "[a-z ]*"})
    return answers


def test_no_log_line_contains_prompts_answers_or_secrets(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token, line = new_token("alice", [Scope.GENERATE])
    for name, text in {"token": token, "tokens": line}.items():
        (tmp_path / name).write_text(text)
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tmp_path / "tokens")
    draft = RunningDraft(model, server=config)
    shown = CredentialFiles(token=tmp_path / "token")
    try:
        with target_server(model, server=config, drafts=[draft.address], draft_credentials=shown) as target:
            target.wait_for_draft()
            with Client(target.address, token=token, max_retries=0) as client:
                answers = call_in_every_way(client)
    finally:
        draft.close()
    lines = [caplog.handler.format(record) for record in caplog.records]
    assert sum("request " in line for line in lines) >= 4, "requests are logged"
    secrets = [
        SECRET,
        "quokka",
        "wombat",
        "123456789123",
        token,
        line,
        *(answer[:12] for answer in answers if answer.strip()),
    ]
    assert betrayals("\n".join(lines), secrets) == []


def test_the_log_scan_finds_prompts_tokens_and_source_code(tmp_path: Path) -> None:
    scan = LogScan()
    logger = logging.Logger("test")
    logger.addHandler(scan)
    logger.warning("request %s: 7 prompt + 24 tokens (0 received, 0 cached), queued 0.001 s, total 0.1 s", "x")
    logger.warning("took 5 of 7, then 8, 9 and 10; 1.5 s, 2.5 s, 3.5 s, 4.5 s, 5.5 s, 6.5 s, 7.5 s, 8.5 s")
    assert scan.take() == []
    try:
        raise ValueError(PROMPT)
    except ValueError:
        logger.exception("failed")
    logger.warning("%r", [5, 77, 130, 21, 300, 42, 9, 8])
    logger.warning("authorization: Bearer abcdefgh-1")
    found = scan.take()
    assert [line.strip() for line in found] == [
        "def main(argv):",
        "[5, 77, 130, 21, 300, 42, 9, 8]",
        "authorization: Bearer abcdefgh-1",
    ]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "target.log").write_text("fine\nclass Stack: A last-in, first-out stack\n")
    with pytest.raises(AssertionError):
        assert betrayals_in(tmp_path) == []
    (tmp_path / "logs" / "target.log").unlink()
