#!/usr/bin/env python3
"""The README's picture: time and memory against the limit, for Ogee and the peers, from what `compare.py race --out` recorded.

A row of panels shows time, the one below it peak memory (anonymous and shared) as a multiple of the limit. A system that gave no answer
at a limit has a cross at the panel's top.
"""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

from compare import limit_bytes

COLOURS = {"ogee": "#d1495b", "duckdb": "#e6a817", "clickhouse": "#30638e", "datafusion": "#4c9f70", "hyper": "#8d6a9f",
           "polars": "#5c6f7b"}
NAMES = {"ogee": "Ogee", "duckdb": "DuckDB", "clickhouse": "ClickHouse", "datafusion": "DataFusion", "hyper": "HyPer",
         "polars": "Polars (no limit)"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", help="what races recorded, a JSON object a line; of equal cells the last counts")
    parser.add_argument("--out", required=True, help="the picture, an SVG file")
    parser.add_argument("--names", default="g13-thin,g4-wide16,g13-wide16", help="queries, a column of panels each")
    parser.add_argument("--titles", help="of the columns, separated by semicolons")
    arguments = parser.parse_args()

    cells = {}
    for line in pathlib.Path(arguments.results).read_text().splitlines():
        cell = json.loads(line)
        cells[cell["query"], cell["system"], cell["limit"]] = cell
    names = arguments.names.split(",")
    titles = arguments.titles.split(";") if arguments.titles else names
    limits = sorted({key[2] for key in cells} - {"none"}, key=limit_bytes) + ["none"]
    systems = [system for system in COLOURS if any(key[1] == system for key in cells)]

    pyplot.rcParams.update({"font.size": 9, "svg.hashsalt": "ogee", "axes.spines.top": False, "axes.spines.right": False})
    figure, panels = pyplot.subplots(2, len(names), figsize=(3.4 * len(names), 5.2), sharex=True, squeeze=False,
                                     gridspec_kw={"height_ratios": [3, 2]})
    for column, (name, title) in enumerate(zip(names, titles)):
        times, memory = panels[0][column], panels[1][column]
        times.set_yscale("log")
        known = [cell["seconds"] for key, cell in cells.items() if key[0] == name and cell["seconds"]]
        top = 2 * max(known)
        for system in systems:
            style = {"color": COLOURS[system], "linewidth": 2.4 if system == "ogee" else 1.3, "marker": "o", "markersize": 3.5}
            of = [cells.get((name, system, limit), {}) for limit in limits]
            times.plot(range(len(limits)), [cell.get("seconds") or float("nan") for cell in of], label=NAMES[system], **style)
            failed = [at for at, cell in enumerate(of) if cell.get("error")]
            shift = (systems.index(system) - len(systems) / 2) * 0.08
            times.plot([at + shift for at in failed], [top] * len(failed), "x", color=COLOURS[system], clip_on=False)
            over = [cell["peak_bytes"] / limit_bytes(limit) if cell.get("seconds") and limit != "none" else float("nan")
                    for cell, limit in zip(of, limits)]
            memory.plot(range(len(limits)), over, **style)
        times.set_title(title, fontsize=9)
        memory.axhline(1, color="black", linewidth=0.8, linestyle=":")
        memory.set_ylim(0, 4)
        memory.set_xticks(range(len(limits)), limits)
        memory.set_xlabel("memory limit")
    panels[0][0].set_ylabel("seconds")
    panels[1][0].set_ylabel("peak memory / limit")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(systems), frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(arguments.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
