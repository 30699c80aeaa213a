"""The benchmarks' own sums, and that a measure runs."""

import json
import math
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "tools")]

import bench  # noqa: E402
import controller_measures  # noqa: E402
import data  # noqa: E402
import delivery_measures  # noqa: E402
import far_hub  # noqa: E402
import make_weights  # noqa: E402
import measures  # noqa: E402
import workload_objects  # noqa: E402
from harness import clients, tools  # noqa: E402

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


@pytest.mark.parametrize(("ours", "shown", "holds"), [([10, 12, 11], 12, True), ([1, 17, 1], 17, False)])
def test_the_largest_is_what_counts_without_a_peer(ours, shown, holds):
    measure = next(one for one in bench.MEASURES if one.name == "hub-restart-client")
    result = bench.result_of(measure, {measures.OURS: ours, measures.PEER: []}, False, {})
    assert measure.bar == 16 and result["ours"] == shown and result["holds"] is holds and "ratio" not in result


def test_sides(tmp_path):
    """A scenario is run for the peer only when one of its measures has one."""
    asked = []

    def scenario(_bench, side):
        asked.append(side)
        return {"a": 2.0 if side == measures.OURS else 4.0, "b": 7.0} if side == measures.OURS else {"a": 4.0}

    paired = measures.Measure("a", scenario, "s", 0.6, "", "")
    alone = measures.Measure("b", scenario, "MiB", 6, "", "", alone=True)

    class Bench:
        extras = {}

    first, second = bench.run_scenario(Bench(), scenario, [paired, alone], 2, False)
    assert asked == ["ours", "peer", "ours", "peer"] and first["ratio"] == 0.5 and first["holds"]
    assert second["ours"] == 7 and not second["holds"] and second["runs"] == 2
    asked.clear()
    bench.run_scenario(Bench(), scenario, [alone], 2, False)
    assert asked == ["ours", "ours"]


def test_link_paces_all_together():
    """What two ask of a link leaves one after the other: a lower bound only, since machines may be slow."""
    far, begin = far_hub.Link(rate=1 << 20), time.monotonic()
    threads = [threading.Thread(target=far.take, args=(100 << 10,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begin >= 200 / 1024 - 0.01


def test_far_hub_sends_what_it_counts(tmp_path):
    data = os.urandom((3 << 20) + 17)
    (tmp_path / "model.safetensors").write_bytes(data)
    (tmp_path / "config.json").write_text("{}")
    with far_hub.FarHub() as hub:
        hub.add_folder("bench/m", tmp_path)
        hub.link = far_hub.Link(round_trip=0.05)
        url = f"{hub.endpoint}/bench/m/resolve/main/model.safetensors"
        get = [tools.need("curl"), "--silent", "--show-error", "--fail", "--location", url, "--output"]
        done = clients.run([*get, tmp_path / "all"], home=tmp_path / "home")
        assert (tmp_path / "all").read_bytes() == data and hub.sent_bytes == len(data)
        assert done.seconds >= 4 * 0.05  # two connections, a request on each
        clients.run([*get, tmp_path / "part", "--range", "1000-1048600"], home=tmp_path / "home")
        assert (tmp_path / "part").read_bytes() == data[1000:1048601] and hub.sent_bytes == len(data) + 1047601


@pytest.mark.parametrize("n_elements", [1, 32000 * 4096, 32000 * 4096 + 5, 1 << 30])
def test_decoder_shapes_take_all(n_elements):
    named = list(make_weights.shaped_as_decoder(n_elements))
    assert sum(math.prod(shape) for _, shape in named) == n_elements and len({name for name, _ in named}) == len(named)


def test_synthetic_is_sparse_and_nowhere_the_same(tmp_path):
    path = tmp_path / "model.safetensors"
    data.make_synthetic(128 << 20, path)
    content = path.read_bytes()
    header_size = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:header_size])
    assert len(content) == header_size + max(entry["data_offsets"][1] for entry in header.values())
    parts = [content[at:at + (1 << 20)] for at in range(header_size, len(content), 1 << 20)]
    assert len(parts) == len(set(parts)) == 128 and path.stat().st_blocks * 512 < 8 << 20


def test_results_are_kept(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps([{"measure": "start", "ratio": 1}, {"measure": "rss-idle", "ratio": 1}]))
    merged = bench.merge(path, [{"measure": "start", "ratio": 2}])
    assert [(one["measure"], one["ratio"]) for one in merged] == [("rss-idle", 1), ("start", 2)]


@pytest.mark.parametrize("language", ["en", "ru"])
def test_table(language):
    results = [bench.result_of(one, {"ours": [1.0], "peer": [2.0]}, False, {}) for one in bench.MEASURES]
    lines = bench.markdown(results, language).splitlines()
    assert len(lines) == len(bench.MEASURES) + 2 and len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize(("n", "percent", "value"), [(200, 99, 198), (200, 50, 100), (10, 99, 10), (1, 99, 1)])
def test_percentile(n, percent, value):
    assert controller_measures.percentile(reversed(list(range(1, n + 1))), percent) == value


@pytest.mark.parametrize(("counts", "share", "value"), [
    ([100, 100, 100], 0.99, 0.00495), ([0, 100, 100], 0.5, 0.015), ([90, 100, 100], 0.99, 0.023), ([0, 0, 100], 0.5, math.inf)])
def test_quantile_of_a_histogram(counts, share, value):
    assert delivery_measures.quantile(list(zip((0.005, 0.025, math.inf), counts)), share) == pytest.approx(value)


def test_workloads_are_of_all_kinds_and_ask_for_models_of_their_namespace():
    made = [workload_objects.workload(i, 20) for i in range(100)]
    assert {one["kind"] for one in made} == set(workload_objects.KINDS) and len({one["metadata"]["name"] for one in made}) == 100
    for one in made:
        names = one["metadata"]["annotations"][workload_objects.PREFIX + "model"].split(",")
        assert {workload_objects.model_objects.namespace_of(int(name.removeprefix("model-"))) for name in names} == {one["metadata"]["namespace"]}


def test_measures_run(tmp_path):
    names = ["start", "hub-push", "hub-push-cpu", "controller-start", "delivery-rss"]
    subprocess.run([sys.executable, HERE / "bench.py", "--quick", "--only", *names, "--program", tools.program(), "--out", tmp_path],
                   check=True)
    results = json.loads((tmp_path / "results-quick.json").read_text())
    assert [result["measure"] for result in results] == names
    assert all(result["ours"] > 0 and result["peer"] > 0 for result in results)
