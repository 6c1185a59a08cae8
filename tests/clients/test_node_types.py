"""The types of the Node client: right code compiles, and wrong code does not."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import CommandOf

pytestmark = pytest.mark.exhaustive  # installs TypeScript

RIGHT = """
import { Client, OutriderError, ServerLost, type Chunk, type Result } from './outrider/index.js';
const client = new Client(['localhost:1', 'localhost:2'], { token: 't', maxRetries: 3, maxBackoff: 0.5 });
const stream = client.stream({ prompt: { text: 'x' }, sampling: { seed: '1', temperature: 0.5 } }, { timeout: 1 });
for await (const chunk of stream) {
  const whole: Chunk = chunk;
  const ids: number[] = whole.token_ids;
  console.log(whole.text, ids, whole.records[0].raw_logprob);
}
const result: Result = await client.generate({ prompt: { text: 'x' } }, { signal: AbortSignal.timeout(1) });
console.log(result.finished.reason, result.tokenIds, result.started.fingerprint);
function explain(error: unknown): string[] {
  if (error instanceof ServerLost) return [error.message];
  if (!(error instanceof OutriderError)) throw error;
  return error.violations.map(({ field, description }) => `${field}: ${description} ${error.retryAfter ?? 0}`);
}
console.log(explain(new Error()));
client.close();
"""
WRONG = """
import { Client } from './outrider/index.js';
const client = new Client('localhost:1');
client.stream({ prompt: 'x' });
client.stream({ promt: { text: 'x' } });
client.stream({}, { timeout: '1' });
new Client('localhost:1', { tries: 3 });
client.stream({}).result.tokens;
"""


def run(*command: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=200, check=False)


def test_right_code_compiles_and_each_mistake_is_found(command_of: CommandOf, tmp_path: Path) -> None:
    kept = Path(command_of("node")[1]).parent
    folder = shutil.copytree(kept.parents[1], tmp_path / "copy", symlinks=True) / "clients" / "node"
    for step in (
        ["npm", "install", "--no-save", "--no-audit", "typescript@5", "@types/node@20"],
        ["npm", "run", "types"],
    ):
        assert run(*step, cwd=folder).returncode == 0
    (folder / "right.mts").write_text(RIGHT)
    (folder / "wrong.mts").write_text(WRONG.lstrip())
    tsc = ("npx", "tsc", "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node")
    right = run(*tsc, "right.mts", cwd=folder)
    assert (right.stdout, right.returncode) == ("", 0)
    found = re.findall(r"^wrong\.mts\((\d+),", run(*tsc, "wrong.mts", cwd=folder).stdout, re.MULTILINE)
    assert found == ["3", "4", "5", "6", "7"]
