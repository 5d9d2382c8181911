"""Map compression on published forests, beside the smallest equal decision trees known for them."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean
from typing import Any

import gpucf
from bench import forests
from bench.harness import Rows, case

# Fewest leaves of one decision tree equal to the forest: "Born-Again Tree Ensembles" (Vidal and Schiffer, ICML 2020),
# means over ten forests of each data set, of which five are here.
SMALLEST_TREE = {
    "Breast-Cancer-Wisconsin": 890.1,
    "COMPAS-ProPublica": 37.1,
    "FICO": 39.2,
    "HTRU2": 11.9,
    "Pima-Diabetes": 169.7,
    "Seeds": 214.6,
}

TIMES = 3


@case("forests", "published forests: boxes before and after joining, seconds, beside the smallest equal trees")
def published_forests() -> Rows:
    by_data_set = defaultdict(list)
    _measured(forests.load(forests.paths()[0]))  # compiles
    for path in forests.paths():
        data_set, forest = path.stem.rsplit(".", 1)
        row = {"data_set": data_set, "forest": forest, **_measured(forests.load(path))}
        by_data_set[data_set].append(row)
        yield row
    for data_set, rows in by_data_set.items():
        yield {"data_set": data_set, **_means(rows), "smallest_tree_mean_of_ten": SMALLEST_TREE[data_set]}
    everything = [row for rows in by_data_set.values() for row in rows]
    yield {"data_set": "all", **_means(everything), "slowest_s": max(row["seconds"] for row in everything)}


def _measured(forest: gpucf.Ensemble) -> dict[str, Any]:
    seconds = []
    for _ in range(TIMES):
        region_map = gpucf.Engine(forest).region_map("any_other")
        seconds.append(sum(region_map.seconds[stage] for stage in ("masks", "compress", "join")))
    proof = region_map.check()
    return {
        "greedy": region_map.n_compressed,
        "joined": region_map.n_regions,
        "ratio": region_map.n_regions / region_map.n_compressed,
        "seconds": min(seconds),
        "points_checked": proof["points_checked"],
    }


def _means(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"mean_{name}": mean(row[name] for row in rows) for name in ("greedy", "joined", "ratio", "seconds")}
