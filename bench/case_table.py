"""The whole Adult table through ``gpucf query``: a fresh process each time, from the files to the file."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets
from bench.harness import ROOT, Rows, case

THREADS = (1, 2)
TIMES = 3  # after one that compiles
# The command line, with the log on stderr and what the kernel says of the process behind it. The peak is asked of the
# process itself: what its parent would be told includes the parent's own size at the fork.
CHILD = """
import logging, sys
logging.basicConfig(format="%(message)s")
logging.getLogger("gpucf").setLevel(logging.INFO)
from gpucf._cli import main
code = main(sys.argv[1:])
sys.stderr.write(open("/proc/self/status").read())
sys.exit(code)
"""


@case("table", "Adult (45,222 rows) through `gpucf query`, XGBoost 100x6: proved, invalid, rows per second, memory")
def table() -> Rows:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, rows = _make_files(folder)
        _query(folder, THREADS[0])  # compiles
        for threads in THREADS:
            for _ in range(TIMES):
                yield {"threads": threads, "rows": len(rows), **_query(folder, threads), **_judged(folder, model, rows)}


def _make_files(folder: Path) -> tuple[Any, Any]:
    """Write ``table.parquet``, ``model.json`` and ``one_hot.json``; the model and the table."""
    import pandas as pd
    import xgboost
    from sklearn.model_selection import train_test_split

    raw = datasets.load_raw("adult")
    rows = pd.DataFrame(raw.columns)
    trained, _, labels, _ = train_test_split(rows, raw.y, test_size=0.2, random_state=0)
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=6, learning_rate=0.1).fit(trained, labels)
    rows.to_parquet(folder / "table.parquet")
    model.save_model(folder / "model.json")
    (folder / "one_hot.json").write_text(json.dumps(raw.one_hot))
    return model, rows


def _query(folder: Path, threads: int) -> dict[str, Any]:
    files = {"--background": "table.parquet", "--one-hot": "one_hot.json", "-o": "out.parquet"}
    options = [word for option, file in files.items() for word in (option, str(folder / file))]
    command = ["query", str(folder / "model.json"), str(folder / "table.parquet"), *options]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *command, "--threads", str(threads)], cwd=ROOT, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"gpucf query failed: {done.stderr}")
    out = {"process_s": seconds, **parsed(done.stderr)}
    n = out["rows_answered"]
    return {**out, "rows_per_s_process": n / seconds, "rows_per_s_search": n / out["search_s"]}


def parsed(log: str) -> dict[str, Any]:
    """Rows, method, seconds by stage (summed over batches) and peak memory, from what the child wrote to stderr."""
    batches = [(int(n), ast.literal_eval(plan)) for n, plan in re.findall(r"^(\d+) rows: (\{.*\})$", log, re.MULTILINE)]
    (peak_kib,) = re.findall(r"^VmHWM:\s+(\d+) kB$", log, re.MULTILINE)
    return {
        "rows_answered": sum(n for n, _ in batches),
        "method": "+".join(sorted({plan["method"] for _, plan in batches})),
        **{
            f"{stage}_s": sum(plan["seconds"][stage] for _, plan in batches)
            for stage in ("prepare", "search", "verify")
        },
        "peak_mib": int(peak_kib) / 1024,
    }


def _judged(folder: Path, model: Any, rows: Any) -> dict[str, Any]:
    """Counts by status, and what the model says of the answers as they are in the file."""
    import pandas as pd

    out = pd.read_parquet(folder / "out.parquet")
    status = out["gpucf_status"].to_numpy()
    after = out[list(rows.columns)]
    if list(after.dtypes) != list(rows.dtypes) or len(after) != len(rows):
        raise AssertionError("the output has other columns or rows than the input")
    same = model.predict(after) == model.predict(rows)
    return {
        **{f"n_{word}": int((status == word).sum()) for word in np.unique(status)},
        "proved": int(np.isin(status, ["optimal", "infeasible"]).sum()),
        "invalid": int((same & np.isin(status, ["optimal", "feasible"])).sum()),
    }
