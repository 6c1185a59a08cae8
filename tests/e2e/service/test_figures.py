"""benchmarks.figures and real_figures with very few runs of the demo pair."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FEW = ["--formats", "bf16", "int8", "--context", "16", "--runs", "1", "--rounds", "1", "--prompt-tokens", "8"]
FEW += ["--new-tokens", "8", "--draft-lengths", "3", "--placements", "shared"]


@pytest.mark.lengthy
@pytest.mark.exhaustive
def test_all_formats_and_present_peers_are_measured_and_drawn(tmp_path: Path) -> None:
    results, chart = tmp_path / "results" / "few.json", tmp_path / "chart.svg"
    command = [sys.executable, "-m", "benchmarks.figures", "--models", "models/demo", *FEW]
    run([*command, "--json", str(results), "--chart", str(chart)])
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


@pytest.mark.exhaustive
def test_one_and_several_streams_are_added_to_the_results(tmp_path: Path) -> None:
    results, chart = tmp_path / "results" / "few.json", tmp_path / "chart.svg"
    command = [sys.executable, "-m", "benchmarks.real_figures", "--models", "models/demo"]
    command += ["--kinds", "code", "--new-tokens", "8", "--weights", "int8", "--json", str(results)]
    results.parent.mkdir()
    before = {"samples": [{"run": "before"}], "versions": {"an engine": "1.0"}}
    results.write_text(json.dumps(before))
    told = run([*command, "--streams", "1", "2"])
    assert "llama.cpp int8 is absent: not named (--llama-server, --gguf)" in told
    record = json.loads(results.read_text())
    assert record["versions"] == before["versions"]
    first, *samples = record["samples"]
    assert [first] == before["samples"]
    assert [(each["streams"], each["kind"], each["way"]) for each in samples] == [
        (1, "code", "plain"),
        (1, "code", "auto"),
        (2, "mixed", "plain"),
        (2, "mixed", "auto"),
    ]
    assert all(each["equal"] == each["streams"] and each["first_token"] > 0 for each in samples)
    assert len({each["run"] for each in samples}) == 1
    results.write_text(json.dumps({**record, "samples": samples}))
    run([sys.executable, "-m", "benchmarks.real_chart", str(results), str(chart)])
    assert "Outrider int8" in [each.text for each in ET.parse(chart).getroot().iter() if each.tag.endswith("text")]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
