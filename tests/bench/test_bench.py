"""The benchmarks' own sums, and that a measure runs."""

import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import bench  # noqa: E402
import measures  # noqa: E402
from harness import tools  # noqa: E402

MEASURE = measures.MEASURES[0]


@pytest.mark.parametrize(("ours", "peer", "ratio", "holds"), [
    ([1, 2, 9], [4, 4, 4], 0.5, True),
    ([3.4, 3.4, 3.4], [4, 4, 4], 0.85, True),
    ([3.5, 3.5, 3.5], [4, 4, 1], 0.875, False),
])
def test_ratio_of_medians(ours, peer, ratio, holds):
    result = bench.result_of(MEASURE, {measures.OURS: ours, measures.PEER: peer}, False, {})
    assert result["ratio"] == pytest.approx(ratio) and result["holds"] is holds
    assert {"measure", "ours", "peer", "ratio", "bar", "holds"} <= set(result)


def test_results_are_kept(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps([{"measure": "start", "ratio": 1}, {"measure": "rss-idle", "ratio": 1}]))
    merged = bench.merge(path, [{"measure": "start", "ratio": 2}])
    assert [(one["measure"], one["ratio"]) for one in merged] == [("rss-idle", 1), ("start", 2)]


@pytest.mark.parametrize("language", ["en", "ru"])
def test_table(language):
    results = [bench.result_of(one, {"ours": [1.0], "peer": [2.0]}, False, {}) for one in measures.MEASURES]
    lines = bench.markdown(results, language).splitlines()
    assert len(lines) == len(measures.MEASURES) + 2 and len({line.count("|") for line in lines}) == 1


def test_a_measure_runs(tmp_path):
    subprocess.run([sys.executable, HERE / "bench.py", "--quick", "--only", "start", "--program", tools.program(), "--out", tmp_path],
                   check=True)
    (result,) = json.loads((tmp_path / "results-quick.json").read_text())
    assert result["measure"] == "start" and result["ours"] > 0 and result["peer"] > 0
