#!/usr/bin/env python3
"""Pictures of what `compare.py race --out` recorded.

  limits   time and memory against the limit, for Ogee and the peers: the README's picture. A row of panels shows time, the one below it
           peak memory (anonymous and shared) as a multiple of the limit.
  scales   time against the scale factor, where the limit grows with the data: figures 5 and 6 of "Robust external hash aggregation".
  tables   the 13 groupings at each scale factor, thin and wide, in Markdown: tables II and III of that paper, one below the other.

A system that gave no answer has a cross at the panel's top, and a dash in a table.
"""

import argparse
import json
import math
import pathlib
import re

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot, ticker

from compare import limit_bytes

COLOURS = {"ogee": "#d1495b", "duckdb": "#e6a817", "clickhouse": "#30638e", "datafusion": "#4c9f70", "hyper": "#8d6a9f",
           "polars": "#5c6f7b"}
NAMES = {"ogee": "Ogee", "duckdb": "DuckDB", "clickhouse": "ClickHouse", "datafusion": "DataFusion", "hyper": "HyPer",
         "polars": "Polars (no limit)"}


def read(path):
    """What was recorded; of equal cells the last counts."""
    cells = {}
    for line in pathlib.Path(path).read_text().splitlines():
        cell = json.loads(line)
        scale = re.search(r"tpch-(\d+)", cell.get("data", ""))
        cell["scale"] = int(scale[1]) if scale else None
        cells[cell["query"], cell["system"], cell["limit"], cell["scale"]] = cell
    return list(cells.values())


def draw_times(panel, name, cells, systems, along, places):
    """A line for each system over `places`, at which `along` says that a cell lies."""
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    panel.yaxis.set_minor_locator(ticker.NullLocator())
    of = {(cell["system"], along(cell)): cell for cell in cells if cell["query"] == name}
    top = 1.6 * max(cell["seconds"] for cell in of.values() if cell["seconds"])
    for number, system in enumerate(systems):
        times = [of.get((system, place), {}).get("seconds") or math.nan for place in places]
        panel.plot(range(len(places)), times, label=NAMES[system], **style(system))
        failed = [at for at, place in enumerate(places) if of.get((system, place), {}).get("error")]
        shift = (number - (len(systems) - 1) / 2) * 0.09
        if failed:
            panel.plot([at + shift for at in failed], [top] * len(failed), "x", color=COLOURS[system], clip_on=False)
    panel.set_xticks(range(len(places)), places)


def style(system):
    return {"color": COLOURS[system], "linewidth": 2.4 if system == "ogee" else 1.3, "marker": "o", "markersize": 3.5}


def draw_limits(cells, names, titles, systems):
    limits = sorted({cell["limit"] for cell in cells} - {"none"}, key=limit_bytes) + ["none"]
    figure, panels = pyplot.subplots(2, len(names), figsize=(3.9 * len(names), 5.2), squeeze=False, layout="constrained",
                                     gridspec_kw={"height_ratios": [3, 2]})
    for column, (name, title) in enumerate(zip(names, titles)):
        times, memory = panels[0][column], panels[1][column]
        draw_times(times, name, cells, systems, lambda cell: cell["limit"], limits)
        times.set_title(title, fontsize=9)
        for system in systems:
            peaks = {cell["limit"]: cell["peak_bytes"] for cell in cells
                     if (cell["query"], cell["system"]) == (name, system) and cell["seconds"]}
            over = [peaks.get(limit, math.nan) / limit_bytes(limit) for limit in limits[:-1]]
            memory.plot(range(len(over)), over, **style(system))
        memory.axhline(1, color="black", linewidth=0.8, linestyle=":")
        memory.set_ylim(0, 4)
        memory.set_xlim(times.get_xlim())
        memory.set_xticks(range(len(limits) - 1), limits[:-1])
        memory.set_xlabel("memory limit")
    panels[0][0].set_ylabel("seconds")
    panels[1][0].set_ylabel("peak memory / limit")
    return figure, panels[0][0]


def draw_scales(cells, names, titles, systems):
    scales = sorted({cell["scale"] for cell in cells})
    columns = min(3, len(names))
    figure, panels = pyplot.subplots(-(-len(names) // columns), columns, figsize=(8, 5.2), squeeze=False, sharey=True,
                                     layout="constrained")
    for panel, name, title in zip(panels.flat, names, titles):
        draw_times(panel, name, cells, systems, lambda cell: cell["scale"], scales)
        panel.set_title(title, fontsize=9)
    for panel in panels[-1]:
        panel.set_xlabel("scale factor")
    for panel in panels[:, 0]:
        panel.set_ylabel("seconds")
    return figure, panels[0][0]


def table(cells, kind, systems):
    """Seconds of the 13 groupings of one kind (thin or wide), a block for each scale factor, and the geometric mean of the times over Ogee's."""
    of = {(cell["scale"], cell["query"], cell["system"]): cell for cell in cells}
    names = [f"g{number}-{kind}" for number in range(1, 14)]
    heads = ["scale factor", "limit", "system", *map(str, range(1, 14)), "mean over Ogee's"]
    lines = [heads, ["---:", "---:", "---", *["---:"] * 14]]
    for scale in sorted({cell["scale"] for cell in cells}):
        for system in systems:
            row = [of.get((scale, name, system), {}) for name in names]
            ratios = [cell["seconds"] / of[scale, name, "ogee"]["seconds"]
                      for name, cell in zip(names, row) if cell.get("seconds") and of[scale, name, "ogee"]["seconds"]]
            mean = f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else "-"
            if 0 < len(ratios) < len(names):
                mean += f" (of {len(ratios)})"
            limit = next((cell["limit"] for cell in row if cell), "")
            shown = [f"{cell['seconds']:.2f}" if cell.get("seconds") else "-" for cell in row]
            lines.append([str(scale), limit, NAMES[system], *shown, mean])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_tables(cells, systems, out):
    kinds = {"thin": "Thin: the group keys alone (table II).", "wide14": "Wide: any value of each of the other columns beside them (table III)."}
    parts = [f"{title} Seconds.\n\n{table(cells, kind, systems)}\n" for kind, title in kinds.items()]
    pathlib.Path(out).write_text("\n".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=["limits", "scales", "tables"])
    parser.add_argument("results", help="what races recorded, a JSON object a line")
    parser.add_argument("--out", required=True, help="the picture, an SVG file, or the tables, Markdown")
    parser.add_argument("--names", default="", help="queries, a column of panels each, separated by commas")
    parser.add_argument("--titles", help="of the columns, separated by semicolons")
    arguments = parser.parse_args()
    cells = read(arguments.results)
    names = arguments.names.split(",")
    titles = arguments.titles.split(";") if arguments.titles else names
    systems = [system for system in COLOURS if any(cell["system"] == system for cell in cells)]
    if arguments.kind == "tables":
        write_tables(cells, systems, arguments.out)
        return
    pyplot.rcParams.update({"font.size": 9, "svg.hashsalt": "ogee", "axes.spines.top": False, "axes.spines.right": False})
    draw = {"limits": draw_limits, "scales": draw_scales}[arguments.kind]
    figure, first = draw(cells, names, titles, systems)
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(systems), frameon=False)
    figure.savefig(arguments.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
