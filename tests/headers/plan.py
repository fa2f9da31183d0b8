#!/usr/bin/env python3
"""Says which headers are checked together, in how few compilations.

  tests/headers/plan.py SOURCE_DIR PLAN_FILE

A header is complete when it compiles with nothing before it but what it includes itself. So a chain
of headers, each of which includes all before it, directly or not, is checked by one compilation that
includes them in this order: what stands before a header there, it includes anyway. The fewest chains
that hold all headers are a largest matching (Dilworth's theorem, by Fulkerson's construction). For
the same reason a header may be compiled behind a precompiled one that it includes.

Writes a line "PRECOMPILED HEADER..." for each chain, PRECOMPILED being a name of PRECOMPILED below;
leaves the file alone when it says so already.
"""
import os
import re
import sys

FLOORS = ["include", "graph", "kernels", "actors", "net"]
# Name: those that use it (public headers get warnings and nothing that is not theirs), and the
# headers of ours in it. The last that fits is taken. tests/headers/CMakeLists.txt makes them.
PRECOMPILED = [
    ("none", "public", []),
    ("public_status", "public", ["include/troupe/status.h"]),
    ("public_graph", "public", ["include/troupe/graph.h"]),
    ("externals", "internal", []),
    ("internal_graph", "internal", ["include/troupe/graph.h"]),
    ("internal_kernel", "internal", ["include/troupe/kernel.h"]),
    ("externals_caf", "actors", []),
    ("actors_graph", "actors", ["include/troupe/graph.h"]),
]


def user(header):
    floor = header.split("/")[0]
    return "public" if floor == "include" else "actors" if floor in ("actors", "net") else "internal"


def find_headers(source):
    found = []
    for floor in FLOORS:
        for folder, _, files in os.walk(os.path.join(source, floor)):
            # Files *_inl.h are parts of the files that include them, after what those include.
            found += [os.path.relpath(os.path.join(folder, f), source) for f in files
                      if f.endswith(".h") and not f.endswith("_inl.h")]
    return sorted(found)


class Includes:
    """Which headers of ours a header includes, directly or not."""

    def __init__(self, source):
        self.source = source
        self.known = {}

    def all(self, header):
        if header not in self.known:
            self.known[header] = set()
            with open(os.path.join(self.source, header)) as f:
                names = re.findall(r'^\s*#\s*include\s+"([^"]+)"', f.read(), re.M)
            reached = set()
            for name in names:
                for path in (name, "include/" + name):
                    if os.path.exists(os.path.join(self.source, path)):
                        reached |= {path} | self.all(path)
            self.known[header] = reached
        return self.known[header]


def chains(headers, includes):
    """The fewest chains; the largest matching of headers with those that come right behind them."""
    behind = {h: [g for g in headers if h in includes.all(g)] for h in headers}
    before = {}

    def match(header, seen):
        for g in behind[header]:
            if g not in seen:
                seen.add(g)
                if g not in before or match(before[g], seen):
                    before[g] = header
                    return True
        return False

    for header in headers:
        match(header, set())
    after = {h: g for g, h in before.items()}
    result = []
    for first in (h for h in headers if h not in before):
        result.append([first])
        while result[-1][-1] in after:
            result[-1].append(after[result[-1][-1]])
    return result


def plan(source):
    includes = Includes(source)
    fitting = {}
    for header in find_headers(source):
        for name, of, hubs in PRECOMPILED:
            if of == user(header) and includes.all(header).issuperset(hubs):
                fitting.setdefault(name, [])
                best = name
        fitting[best].append(header)
    planned = [(name, chain) for name, _, _ in PRECOMPILED for chain in chains(fitting.get(name, []), includes)]
    if sum(len(chain) for _, chain in planned) != sum(map(len, fitting.values())):
        sys.exit("headers include each other in a circle")
    return "".join(" ".join([name] + chain) + "\n" for name, chain in planned)


def main():
    source, file = sys.argv[1:]
    text = plan(source)
    if not os.path.exists(file) or open(file).read() != text:
        with open(file, "w") as f:
            f.write(text)


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    main()
