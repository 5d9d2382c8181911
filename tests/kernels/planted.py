"""Planted bugs: each textual change of a kernel must be noticed by the host-run comparisons.

Run by hand: ``PYTHONPATH=. python tests/kernels/planted.py``; a line for each bug, and the share caught.
Two numbers, ``first step``, take a part of the bugs. The line "(no bug)" must say MISSED.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
sys.path.insert(0, str(Path(__file__).parent.parent.parent))

BUGS = (
    ("prices.cuh", "bool rises = code > mine || !ordered;", "bool rises = code >= mine;"),
    ("prices.cuh", "mine != last && code != last;", "mine != last;"),
    ("prices.cuh", "(rises ? 1.0 : -1.0) / p.scale[j]", "(rises ? 1.0 : 1.0) / p.scale[j]"),
    ("prices.cuh", "least(p.far[j] * d, LARGEST_PRICE)", "p.flat[side]"),
    ("prices.cuh", "if (linear > 0.0) p += linear * d;", "if (linear > 1.0) p += linear * d;"),
    ("prices.cuh", "p += square * (d * d);", "p += (square * d) * d + 1e-9;"),
    ("keys.cuh", "return (a < own) ? a > b : a < b;", "return a < b;"),
    ("keys.cuh", "return a < own;", "return a > own;"),
    ("keys.cuh", "if (a == own || b == own) return a == own;", "if (a == own || b == own) return b == own;"),
    ("map.cuh", "if (bound > best_cost) continue;", "if (bound >= best_cost) continue;"),
    ("map.cuh", "if (s >= size || c > best_cost", "if (c > best_cost"),
    ("map.cuh", "while (at > base && stack_cost[at] < c)", "while (at > base && stack_cost[at] > c)"),
    ("map.cuh", "if (own_total != best_total) return own_total < best_total;", ""),
    ("map.cuh", "if (nearest > best_cost) break;", "if (nearest >= best_cost) break;"),
    ("rules.cuh", "j < k ? low_j >= high_k : low_j > high_k", "low_j >= high_k"),
    ("rules.cuh", "may = (double)s.high[c] >= r.bound[i];", "may = (double)s.high[c] > r.bound[i];"),
    ("rules.cuh", "label == 1 ? outlook :", "label != 1 ? outlook :"),
    ("search.cuh", "range &= q.trees.at_most[(first + q.hi(d)[j])", "range &= q.trees.at_most[(first + q.lo(d)[j])"),
    ("search.cuh", "double limit = budget - rest + slack", "double limit = 0.9 * budget - rest"),
    ("search.cuh", "dropped = q.price(first + new_hi + 1);", "dropped = q.price(first + new_hi);"),
    ("search.cuh", "if (total != best_total) return total < best_total;", "return false;"),
    ("search_bound.cuh", "may = high - margin >= bound", "may = high >= bound + 2 * margin + 1e-3"),
    ("search_bound.cuh", "i64 last = 64 * w + highest_bit(mask[w]);", "i64 last = 64 * w + lowest_bit(mask[w]);"),
    ("search_bound.cuh", "Score sum = q.trees.base[c];", "Score sum = 0;"),
    ("search_bound.cuh", "hi = least(hi, cut);", "hi = least(hi, cut + 1);"),
    ("search_bound.cuh", "if (q.picked()[t] >= 0) q.weight()[q.picked()[t]] = 0;", ";"),
    ("search_bound.cuh", "bool left_is_near = left <= right;", "bool left_is_near = left >= right;"),
    ("search_bound.cuh", "left_is_near ? right : left);", "left_is_near ? left : right);"),
    ("search_row.cuh", "excluded = least(excluded, cost);", ""),
    ("search_row.cuh", "if (cost < best_cost || key_beats_best", "if (cost <= best_cost || key_beats_best"),
    ("search_row.cuh", "if (best_cost < infinity() && best_cost <= budget)", "if (best_cost < infinity())"),
    ("search_row.cuh", "if (status == OPTIMAL) bound = best_cost;", ""),
    ("search.cu", "int step = 16; step > 0", "int step = 8; step > 0"),
    ("search.cu", "if (lane() >= step) x += below;", "x += below;"),
    ("search.cu", "__shfl_sync(all, x, 31)", "__shfl_sync(all, x, 30)"),
)  # fmt: skip


def caught(folder: Path) -> str:
    """What the comparisons say of the kernels in a folder; empty where they notice nothing."""
    from host_device import HostBackend
    from random_models import random_model
    from random_queries import random_engine, random_options, random_query_rows, random_target
    from shadow import shadowed

    warp = HostBackend(mode="fibers", seed=3, folder=folder)
    try:
        with shadowed(warp):
            for kind in ("xgb", "forest", "tree", "xgb_multi", "forest_multi", "hist"):
                rng = np.random.default_rng(7)
                for _ in range(12):
                    model, X = random_model(kind, rng)
                    engine = random_engine(model, X, rng)
                    asked = random_query_rows(X, rng), random_options(engine, rng), random_target(engine, rng)
                    for method in ("map", "search"):
                        engine.method = engine._planner.method = method
                        engine.query(asked[0], target=asked[2], **asked[1])
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'unequal'}"[:90]
    return ""


def main() -> None:
    import os

    from gpucf._cuda_args import kernel_folder

    found, bugs = 0, BUGS[int(sys.argv[1]) :: int(sys.argv[2])] if len(sys.argv) > 2 else BUGS
    for file, old, new in [("map.cu", "", ""), *bugs]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "kernels"
            shutil.copytree(kernel_folder(), folder)
            text = (folder / file).read_text()
            assert old in text, (file, old)
            (folder / file).write_text(text.replace(old, new, 1) if old else text)
            pid = os.fork()  # a planted bug may crash or hang the process
            if pid == 0:
                import signal

                signal.alarm(300)
                said = caught(folder)
                print(f"{'caught' if said else 'MISSED':7} {file}: {old or '(no bug)'} -> {new}  {said}", flush=True)
                os._exit(0 if said else 7)
            status = os.waitpid(pid, 0)[1]
            if status not in (0, 7 << 8):
                print(f"caught  {file}: {old} -> {new}  ended by signal {status}", flush=True)
            found += bool(old) and status != 7 << 8
    print(f"{found} of {len(bugs)} caught")


if __name__ == "__main__":
    main()
