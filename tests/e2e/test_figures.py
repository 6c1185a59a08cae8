"""services.bench.experiments.figures with very few runs of the demo pair, beside the one peer that tests install."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FEW = ["--formats", "bf16", "int8", "--context", "16", "--runs", "1", "--rounds", "1", "--prompt-tokens", "8"]
FEW += ["--new-tokens", "8", "--draft-lengths", "3", "--placements", "shared"]


@pytest.mark.timeout(600)
def test_all_formats_and_the_peers_that_are_here_are_measured_and_drawn(tmp_path: Path) -> None:
    results, chart = tmp_path / "results" / "few.json", tmp_path / "chart.svg"
    command = [sys.executable, "-m", "services.bench.experiments.figures", "--models", "models/demo", *FEW]
    command += ["--json", str(results), "--chart", str(chart)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(results.read_text())
    bf16, int8 = record["formats"]["bf16"]["services"]["shared"], record["formats"]["int8"]["services"]["shared"]
    assert {way: each["num_equal"] for way, each in bf16["ways"].items()} == {"plain": 1, "auto": 1, "k = 3": 1}
    peer = bf16["peers"]["transformers bf16"]
    assert peer.keys() == {"plain", "k = 3"}
    assert all(each["num_answers"] == 1 and each["rate"]["median"] > 0 for each in peer.values())
    assert peer["plain"]["tokens_per_pass"] == 1
    assert int8["peers"] == {}
    assert record["absent"]["llama.cpp bf16"] == "not named (--llama-server, --gguf)"
    drawn = ET.parse(chart).getroot()
    assert len([each for each in drawn.iter() if each.tag.endswith("rect")]) == 6
    assert "transformers" in [each.text for each in drawn.iter() if each.tag.endswith("text")]
