"""`python -m bench [NAME...]`: run cases and write their raw files; without a name, list what there is."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from bench import harness


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help='cases to run, or "all"')
    parser.add_argument("--label", default="", help="goes into the file name, e.g. h200 for another machine")
    options = parser.parse_args()
    for path in sorted(Path(__file__).parent.glob("case_*.py")):
        importlib.import_module(f"bench.{path.stem}")
    if not options.names:
        for known in harness.CASES.values():
            print(f"{known.name:24} {known.about}")
        return
    names = list(harness.CASES) if options.names == ["all"] else options.names
    if unknown := [name for name in names if name not in harness.CASES]:
        parser.error(f"there is no case {', '.join(unknown)}; there are {', '.join(harness.CASES)}")
    described = harness.machine()
    print(harness.machine_line(described))
    for name in names:
        rows = []
        for row in harness.CASES[name].function():
            print(name, *(f"{key}={_short(value)}" for key, value in row.items() if not isinstance(value, list)))
            rows.append(row)
        print("wrote", harness.write(name, rows, described, options.label).relative_to(harness.ROOT))


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
