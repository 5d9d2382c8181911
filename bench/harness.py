"""What each benchmark case needs: a name, honest repeats, the machine line, and a raw file.

A case is a function in a module ``bench/case_*.py``::

    @case("map_compas", "boxes and time per query of the map, COMPAS, XGBoost 100 x 6")
    def map_compas() -> Rows:
        yield {"what": "query", "n_rows": 1000, **repeat(lambda: engine.query(X))}

Each row that it yields is one measurement. Report visits or nodes per query beside seconds: they repeat exactly.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
FORMAT = 1

Rows = Iterable[dict[str, Any]]


@dataclass(frozen=True)
class Case:
    name: str
    about: str
    function: Callable[[], Rows]


CASES: dict[str, Case] = {}


def case(name: str, about: str) -> Callable[[Callable[[], Rows]], Callable[[], Rows]]:
    """Register a function as the benchmark `name`."""

    def register(function: Callable[[], Rows]) -> Callable[[], Rows]:
        if name in CASES:
            raise ValueError(f"there are two benchmark cases named {name!r}")
        CASES[name] = Case(name, about, function)
        return function

    return register


def repeat(action: Callable[[], Any], *, times: int = 5, warm_up: int = 1) -> dict[str, Any]:
    """Run `action` and return its times in seconds: all of them, the least and the median.

    The first `warm_up` runs, which may compile, are reported apart. The least is the figure to compare: other work on
    the machine only ever adds.
    """
    seconds = []
    for _ in range(warm_up + times):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    measured = seconds[warm_up:]
    return {
        "warm_up_s": seconds[:warm_up],
        "times_s": measured,
        "min_s": min(measured),
        "median_s": statistics.median(measured),
    }


def machine() -> dict[str, Any]:
    """Describe the machine, the versions and the commit that a measurement belongs to."""
    packages = ["numpy", "numba", "xgboost-cpu", "xgboost", "lightgbm", "scikit-learn", "catboost"]
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "gpu": _output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
        "os": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: found for name in packages if (found := _version(name))},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _output("git", "describe", "--always", "--dirty", "--abbrev=12"),
    }


def machine_line(described: dict[str, Any]) -> str:
    """Put the main things of `machine` on one line, for people and for documents."""
    versions = ", ".join(f"{name} {described['packages'].get(name, '-')}" for name in ["numba", "numpy"])
    gpu = f", {described['gpu']}" if described["gpu"] else ""
    return (
        f"{described['cpu']}, {described['cores']} cores{gpu}; Python {described['python']}, {versions}; "
        f"{described['date'][:10]}, commit {described['commit'] or 'unknown'}"
    )


def write(name: str, rows: list[dict[str, Any]], described: dict[str, Any], label: str = "") -> Path:
    """Write the raw file of one case, ``bench/results/NAME[.LABEL].json``; git keeps the earlier ones."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / (f"{name}.{label}.json" if label else f"{name}.json")
    content = {
        "format": FORMAT,
        "case": name,
        "about": CASES[name].about,
        "command": f"./run bench {name}",
        "machine": described,
        "rows": rows,
    }
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    return path


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def fresh_python(code: str, *arguments: str, **env: str) -> float:
    """Seconds that a new Python process takes to run `code`, its own start included."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], cwd=ROOT, env={**os.environ, **env}, check=True)
    return time.perf_counter() - start
