"""The table: as text, as Markdown, as JSON, and read back from JSON."""
import json

from measure import Row, Series

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def number(value):
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1000:
        return format(value, ",.0f")
    if size >= 100:
        return "%.0f" % value
    if size >= 10:
        return "%.1f" % value
    return "%.2f" % value if size >= 0.1 else "%.3g" % value


def series(s):
    """Median and range."""
    if s is None:
        return "-"
    if len(s.samples) == 1:
        return number(s.median)
    return "%s (%s..%s)" % (number(s.median), number(min(s.samples)), number(max(s.samples)))


def cells(row):
    goal = "" if row.goal is None else "%s %s%s" % (row.goal[0], number(row.goal[1]), " " + row.unit if row.of == "itself" else "x")
    met = {None: "", True: "met", False: "missed"}[row.met]
    ratio = "" if row.ratio is None else "%sx" % number(row.ratio)
    if ratio and row.of not in ("TensorFlow", ""):
        ratio += " of " + row.of
    return [row.group, row.measure, row.unit, series(row.ours), series(row.rivals.get("TensorFlow")), series(row.rivals.get("PyTorch")), ratio, goal, met]


HEAD = ["group", "measure", "unit", "Troupe", "TensorFlow", "PyTorch", "ratio", "goal", ""]


def text(rows):
    table = [HEAD] + [cells(r) for r in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEAD))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in table)


def foot(machine, rows):
    counts = {True: 0, False: 0, None: 0}
    for r in rows:
        counts[r.met] += 1
    lines = ["%s: %s" % pair for pair in machine]
    when = {}
    for r in rows:
        groups = when.setdefault(r.measured, [])
        if r.group not in groups:
            groups.append(r.group)
    lines += ["%s: measured %s" % (", ".join(groups), text) for text, groups in when.items() if text]
    lines.append("goals met: %d, missed: %d; median (lowest..highest) of samples taken in turn" % (counts[True], counts[False]))
    return lines


def markdown(rows, machine, missing):
    out = ["| " + " | ".join(HEAD) + " |", "|---|---|---|---:|---:|---:|---:|---|---|"]
    out += ["| " + " | ".join(cells(r)) + " |" for r in rows]
    notes = [(r.measure, r.note) for r in rows if r.note]
    out.append("")
    out += ["- %s: %s" % n for n in notes]
    out += ["- " + line for line in foot(machine, rows)]
    out += ["- not measured: " + line for line in missing]
    return "\n".join(out) + "\n"


def to_json(rows, machine, missing):
    def one(s):
        return {"median": s.median, "samples": s.samples}
    return json.dumps({
        "machine": dict(machine),
        "missing": missing,
        "rows": [{
            "group": r.group, "measure": r.measure, "unit": r.unit, "ours": one(r.ours), "rivals": {k: one(v) for k, v in r.rivals.items()},
            "ratio": r.ratio, "of": r.of, "goal": None if r.goal is None else {"op": r.goal[0], "limit": r.goal[1]}, "met": r.met, "note": r.note, "measured": r.measured,
        } for r in rows],
    }, indent=1)


def from_json(text):
    """(rows, missing) of an earlier run."""
    content = json.loads(text)
    rows = []
    for r in content["rows"]:
        goal = None if r["goal"] is None else (r["goal"]["op"], r["goal"]["limit"])
        rows.append(Row(r["group"], r["measure"], r["unit"], Series(r["ours"]["samples"]), {k: Series(v["samples"]) for k, v in r["rivals"].items()},
                        r["ratio"], r["of"], goal, r["note"], r["measured"]))
    return rows, content["missing"]


def into_page(page, table):
    """`page` with what stands between the two marks replaced; without marks, the table alone."""
    if BEGIN not in page or END not in page:
        return table
    return page[:page.index(BEGIN) + len(BEGIN)] + "\n" + table + page[page.index(END):]
