"""Ask one peer for the rows of one job: ``run.py FOLDER PEER`` adds lines to ``FOLDER/PEER.jsonl``.

``run.py --probe`` prints, as JSON, the version of each peer or why it cannot run.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from pathlib import Path

from job import Job, read_job

PEERS = {
    "treecf exact": "treecf_exact",
    "OCEAN CP": "ocean_cp",
    "own CP-SAT": "own_cpsat",
    "own MILP (HiGHS)": "own_milp",
}


def probe() -> dict[str, dict[str, str]]:
    """By peer, {"version": ...} or {"skipped": reason}."""
    found = {}
    for peer, module in PEERS.items():
        try:
            found[peer] = {"version": importlib.import_module(module).version()}
        except Exception as error:
            found[peer] = {"skipped": f"{type(error).__name__}: {error}"}
    return found


def answer(job: Job, peer: str, out: Path) -> None:
    """One line for the time to build, then one for each row, for as long as the budget lasts."""
    with open(out, "w") as f:

        def say(**line: object) -> None:
            print(json.dumps(line), file=f, flush=True)

        start = time.perf_counter()
        ask = importlib.import_module(PEERS[peer]).prepare(job)
        begun = time.perf_counter()
        say(build_s=begun - start)
        for i, (row, wanted) in enumerate(zip(job.rows, job.wanted, strict=True)):
            if i and time.perf_counter() - begun > job.budget_s:
                break
            start = time.perf_counter()
            try:
                found = ask(row, int(wanted))
            except Exception as error:
                found = {"status": "error", "error": f"{type(error).__name__}: {error}"}
            say(row=i, seconds=time.perf_counter() - start, **found)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "--probe":
        print(json.dumps(probe()))
    else:
        folder = Path(sys.argv[1])
        answer(read_job(folder), sys.argv[2], folder / f"{PEERS[sys.argv[2]]}.jsonl")
