#!/usr/bin/env python3
"""Measures ai-models against its peers on the same bytes, in the same script, and prints ratios: `make bench`.

Runs are interleaved, ours then the peer's; the medians are compared. What has no peer is held to its bar by the largest value.
Results go to OUT/results.json: measures that were not run this time keep their last result there. Measures over a 1 Gbit/s
link make two network namespaces and need root.

Run it on a quiet machine. Needs about 25 GiB of free disk for the full sizes.
"""

import argparse
import fnmatch
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import controller_measures  # noqa: E402
import data  # noqa: E402
import delivery_measures  # noqa: E402
import hub_measures  # noqa: E402
import materialize_measures  # noqa: E402
import measures  # noqa: E402
from harness import tools  # noqa: E402
from measures import OURS, PEER  # noqa: E402

MEASURES = measures.MEASURES + hub_measures.MEASURES + controller_measures.MEASURES + materialize_measures.MEASURES + delivery_measures.MEASURES

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def result_of(measure, values, quick, extras):
    ours, common = values[OURS], {"measure": measure.name, "unit": measure.unit, "bar": measure.bar}
    common |= {"runs": len(ours), "quick": quick, "ours_spread": [min(ours), max(ours)], "extras": extras}
    if measure.alone:
        return {**common, "ours": max(ours), "holds": max(ours) <= measure.bar}
    peer = values[PEER]
    ratio = statistics.median(ours) / statistics.median(peer)
    return {
        **common, "peer_is": measure.peer, "ours": statistics.median(ours), "peer": statistics.median(peer), "ratio": ratio,
        "holds": ratio <= measure.bar, "peer_spread": [min(peer), max(peer)],
    }


def run_scenario(bench, scenario, wanted, runs, quick):
    """Runs a scenario as often as asked, interleaved; returns the results of the measures it gives."""
    values = {measure.name: {OURS: [], PEER: []} for measure in wanted}
    bench.extras = {}
    for run in range(runs):
        for side in (OURS, PEER):
            begin, shown_ones = time.monotonic(), [measure for measure in wanted if side == OURS or not measure.alone]
            if not shown_ones:
                continue
            if side == PEER and wanted[0].fixed_peer is not None:
                got = {measure.name: measure.fixed_peer for measure in wanted}
            else:
                got = scenario(bench, side)
            for measure in shown_ones:
                values[measure.name][side].append(got[measure.name])
            shown = ", ".join(f"{measure.name} {got[measure.name]:.4g} {measure.unit}" for measure in shown_ones)
            print(f"  {run + 1}/{runs} {side:5} {shown}  [{time.monotonic() - begin:.0f} s]", file=sys.stderr, flush=True)
    return [result_of(measure, values[measure.name], quick, bench.extras) for measure in wanted]


def chosen(patterns):
    picked = [measure for measure in MEASURES if not patterns or any(fnmatch.fnmatch(measure.name, p) for p in patterns)]
    if not picked:
        sys.exit(f"no such measure; there are: {', '.join(measure.name for measure in MEASURES)}")
    return picked


def merge(path, results):
    """The file's results with these put in, in the order of the measures."""
    found = {result["measure"]: result for result in json.loads(path.read_text())} if path.exists() else {}
    found |= {result["measure"]: result for result in results}
    return [found[measure.name] for measure in MEASURES if measure.name in found]


def number(value):
    if value is None:
        return "–"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def print_table(results):
    print(f"{'measure':20} {'ours':>8} {'peer':>8} {'unit':12} {'ratio':>7} {'bar':>6}  holds  runs  spread ours | peer")
    for result in results:
        spreads = " | ".join("–".join(map(number, result[f"{side}_spread"])) for side in (OURS, PEER) if f"{side}_spread" in result)
        ratio = f"{result['ratio']:.3f}" if "ratio" in result else "–"
        print(f"{result['measure']:20} {number(result['ours']):>8} {number(result.get('peer')):>8} {result['unit']:12} "
              f"{ratio:>7} {result['bar']:6.2f}  {'yes' if result['holds'] else 'NO':5}  {result['runs']:4}  {spreads}"
              f"{'  (quick)' if result['quick'] else ''}")


HEADINGS = {
    "en": ("Measure", "Peer", "Ours", "Peer's", "Unit", "Ratio", "Bar", "Holds", "yes", "no"),
    "ru": ("Мера", "С чем сравнено", "У нас", "У них", "Единица", "Отношение", "Порог", "Выполнено", "да", "нет"),
}
UNITS_RU = {"CPU-s/GiB": "с процессора/ГиБ", "s": "с", "ms": "мс", "MiB": "МиБ", "of logical": "от логического",
            "requests/GiB": "запросов/ГиБ", "requests": "запросов", "writes": "записей", "ReplicaSets": "ReplicaSet"}
PEERS_RU = {f"{controller_measures.RUNTIME}, create only": f"{controller_measures.RUNTIME}, только создание",
            "ours, 16 of 256 MiB": "мы сами, 16 по 256 МиБ", "ours, 2 GiB": "мы сами, 2 ГиБ", "full copy": "полная копия",
            "the documented behaviour": "описанное поведение",
            "a Go webhook that only holds": "webhook на Go, который только задерживает"}


def markdown(results, language):
    *headings, yes, no = HEADINGS[language]
    lines = [f"| {' | '.join(headings)} |", "|---|---|--:|--:|---|--:|--:|---|"]
    by_name = {measure.name: measure for measure in MEASURES}
    for result in results:
        measure = by_name[result["measure"]]
        text, unit, peer = measure.english, measure.unit, measure.peer
        if language == "ru":
            text, unit, peer = measure.russian, UNITS_RU[unit], PEERS_RU.get(peer, peer)
        ratio, bar = (f"{result['ratio']:.2f}", f"{measure.bar:.2f}") if "ratio" in result else ("–", f"{measure.bar} {unit}")
        lines.append(f"| {text} | {'–' if measure.alone else peer} | {number(result['ours'])} | {number(result.get('peer'))} | {unit} | "
                     f"{ratio} | ≤ {bar} | {yes if result['holds'] else no} |")
    return "\n".join(lines)


def write_docs(results):
    if any(result["quick"] for result in results):
        sys.exit("quick results are not for the documents")
    for language in HEADINGS:
        page = tools.ROOT / "docs" / language / "performance.md"
        head, rest = page.read_text().split(BEGIN)
        page.write_text(f"{head}{BEGIN}\n{markdown(results, language)}\n{END}{rest.split(END)[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, help="the built ai-models (default: build/src/main/ai-models)")
    parser.add_argument("--out", type=pathlib.Path, default=tools.ROOT / "build" / "bench",
                        help="folder for data, stores and results (default: build/bench)")
    parser.add_argument("--only", nargs="+", metavar="MEASURE", help="these measures; * stands for anything")
    parser.add_argument("--runs", type=int, help="runs a side (default: 5; 3 with a hub or a bucket, 21 for a start; 1 to 7 with a controller)")
    parser.add_argument("--quick", action="store_true", help="one run of small sizes, to see that it works")
    parser.add_argument("--list", action="store_true", help="the measures")
    parser.add_argument("--print", action="store_true", help="print the last results, run nothing")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/*/performance.md")
    args = parser.parse_args()
    if args.list:
        for measure in MEASURES:
            print(f"{measure.name:20} ≤ {measure.bar:.2f}  {measure.english}; {'alone' if measure.alone else f'peer: {measure.peer}'}")
        return
    picked = [] if args.print else chosen(args.only)
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    path = out / ("results-quick.json" if args.quick else "results.json")
    bench = measures.Bench((args.program or tools.program()).resolve(), out / "work", data.Data(out / "data", args.quick))
    try:
        for scenario in dict.fromkeys(measure.scenario for measure in picked):
            wanted = [measure for measure in picked if measure.scenario is scenario]
            print(", ".join(measure.name for measure in wanted), file=sys.stderr, flush=True)
            runs = 1 if args.quick or wanted[0].runs == 1 else args.runs or wanted[0].runs
            results = run_scenario(bench, scenario, wanted, runs, args.quick)
            path.write_text(json.dumps(merge(path, results), indent=1) + "\n")
    finally:
        bench.close()
    results = json.loads(path.read_text()) if path.exists() else []
    print_table(results)
    if args.write_docs:
        write_docs(results)
    names = {measure.name for measure in picked}
    sys.exit(not args.quick and any(not result["holds"] for result in results if result["measure"] in names))


if __name__ == "__main__":
    main()
