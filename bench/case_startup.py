"""How long a fresh process takes: the import, and the first answer, with and without compiled code at hand."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench import datasets
from bench.harness import Rows, case, fresh_python, repeat

N_EMPTY, N_WARM = 2, 5
FIRST_ANSWER = """
import json, sys, time
begin = time.perf_counter()
import numpy, gpucf
imported = time.perf_counter()
X = numpy.load(sys.argv[2])
engine = gpucf.Engine(sys.argv[1], background=X)
ready = time.perf_counter()
status = engine.query(X[:1]).status.tolist()
answered = time.perf_counter()
second = engine.query(X[:1]).status.tolist()
again = time.perf_counter()
assert status == second == ["optimal"], status
parts = {"import_s": imported - begin, "engine_s": ready - imported, "query_s": answered - ready,
         "second_query_s": again - answered}
open(sys.argv[3], "w").write(json.dumps(parts))
"""


@case("startup", "seconds of fresh processes: import, first answer with an empty and with a warm numba cache")
def startup() -> Rows:
    for what in ["pass", "import numpy", "import gpucf", "import gpucf; gpucf.load_model"]:
        yield {"what": what, **repeat(lambda code=what: fresh_python(code), times=7)}
    data = datasets.load("german")
    model, held_out = datasets.train(data, "xgb", 20, 3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save_model(folder / "model.json")
        np.save(folder / "rows.npy", held_out)
        for i in range(N_EMPTY):
            yield {"what": "first answer, empty cache", **_first_answer(folder, f"cache{i}")}
        for _ in range(N_WARM):
            yield {"what": "first answer, warm cache", **_first_answer(folder, "cache0")}


def _first_answer(folder: Path, cache: str) -> dict[str, Any]:
    """Seconds of the whole process (its exit included) and of its parts."""
    files = [str(folder / name) for name in ("model.json", "rows.npy", "parts.json")]
    whole = fresh_python(FIRST_ANSWER, *files, NUMBA_CACHE_DIR=str(folder / cache))
    return {"process_s": whole, **json.loads((folder / "parts.json").read_text())}
