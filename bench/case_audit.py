"""Audits from files to the report, each in a fresh process: time by stage, and peak memory.

The reports themselves go to ``bench/.cache/audits/NAME``. The models are trained as elsewhere in the benchmarks, on raw
columns.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets
from bench.harness import ROOT, Rows, case

FOLDER = ROOT / "bench" / ".cache" / "audits"
TIMES = 3  # after one that compiles
CHILD = """
import sys
from gpucf._cli import main
code = main(sys.argv[1:])
sys.stderr.write(open("/proc/self/status").read())
sys.exit(code)
"""
# What each audit asks; "target" is the outcome that people want.
SETTINGS: dict[str, dict[str, Any]] = {
    "compas": {
        "by": ["Sex", "Race"],
        "query": {"increase_only": ["AgeGroup"]},
        "labels": {"Sex": {0: "male", 1: "female"}, "Race": {0: "African-American", 1: "Caucasian"}},
        "target": 0,
    },
    "german": {"by": ["Sex", "Age"], "bins": {"Age": [30, 45]}, "target": 1},
    "adult": {
        "by": ["Sex", "Age"],
        "bins": {"Age": [30, 45, 60]},
        "target": 1,
        "labels": {"Sex": {0: "male", 1: "female"}},
    },
}


@case("audit", "Adult (45,222 rows), sex and age, through `gpucf audit`: time by stage, memory; COMPAS and German too")
def audit() -> Rows:
    for name in ("german", "compas", "adult"):
        folder = write_inputs(name)
        run(folder)  # compiles
        for _ in range(TIMES if name == "adult" else 1):
            yield {"data": name, **run(folder)}


def write_inputs(name: str) -> Path:
    """Write ``people.csv``, ``model.json`` and ``audit.yaml``; returns their folder."""
    import pandas as pd
    import xgboost
    from sklearn.model_selection import train_test_split

    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    raw = datasets.load_raw(name)
    rows = pd.DataFrame(raw.columns)
    trained, _, labels, _ = train_test_split(rows, raw.y, test_size=0.2, random_state=0)
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=6, learning_rate=0.1).fit(trained, labels)
    model.save_model(folder / "model.json")
    rows.to_csv(folder / "people.csv", index=False)
    # JSON is YAML.
    (folder / "audit.yaml").write_text(json.dumps({**SETTINGS[name], "one_hot": raw.one_hot}))
    return folder


def run(folder: Path) -> dict[str, Any]:
    """One audit in a fresh process."""
    command = ["audit", "model.json", "people.csv", "--config", "audit.yaml", "-o", "report"]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *command], cwd=folder, capture_output=True, text=True, env=_environment()
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"gpucf audit failed: {done.stderr}")
    (peak_kib,) = re.findall(r"^VmHWM:\s+(\d+) kB$", done.stderr, re.MULTILINE)
    found = json.loads((folder / "report" / "audit.json").read_text())
    (report_s,) = re.findall(r"and ([\d.]+) s for the report", done.stdout)
    return {
        "rows": found["n"],
        "refused": found["n_refused"],
        "open": found["counts"]["feasible"] + found["counts"]["unknown"],
        "process_s": seconds,
        **{f"{stage}_s": value for stage, value in found["seconds"].items()},
        "report_s": float(report_s),
        "peak_mib": int(peak_kib) / 1024,
        "report_kib": int(np.ceil((folder / "report" / "index.html").stat().st_size / 1024)),
    }


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}
