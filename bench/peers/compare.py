"""gpucf's own figures for a model, and a peer's answers held against gpucf's."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

import gpucf

if TYPE_CHECKING:
    from bench.datasets import Dataset

# OCEAN and CP-SAT round costs to 1e-8 and 1e-9 a column, and OCEAN moves XGBoost's thresholds by 1e-8.
SAME_COST = 1e-6
RATIOS = ("ratio_search", "ratio_bulk", "ratio_latency")
AT_THE_THRESHOLD = 1e-6  # of the score: solvers round scores, and libraries round their sums


class Ours:
    """gpucf on one thread: the table in one call, then the peers' rows one call each."""

    def __init__(self, data: Dataset, model: Any, table: np.ndarray, n_rows: int, times: int) -> None:
        self.model = model
        hot = {name for members in data.one_hot.values() for name in members}
        self.weight = np.array([0.5 if name in hot else 1.0 for name in data.names])
        engine = gpucf.Engine(model, background=data.X, one_hot=data.one_hot_by_position, n_threads=1)
        engine.query(table, scale=None)  # compiles, and builds what is kept
        whole, result = min((_timed(engine, table) for _ in range(times)), key=lambda pair: pair[0])
        self.rows = table[:n_rows]
        self.cost, self.status = result.cost[:n_rows], result.status[:n_rows]
        self.points = np.asarray(result.counterfactuals)[:n_rows]
        self.wanted = 1 - model.predict(self.rows).astype(int)
        self.latency_s = np.array([min(_timed(engine, row[None])[0] for _ in range(times)) for row in self.rows])
        # What a row costs within the whole call: its share of the search by nodes, an equal share of the rest.
        seconds = result.plan["seconds"]
        share = result.visits[:n_rows] / max(1, result.visits.sum())
        self.search_s = seconds["search"] * share
        self.bulk_s = (whole - seconds["search"]) / len(table) + self.search_s
        self.bulk_mean_s = whole / len(table)
        answered = np.isin(self.status, ["optimal", "feasible"])
        self.valid = model.predict(self.points).astype(int) == self.wanted
        self.figures = {
            "method": result.plan["method"],
            "rows": len(table),
            "proved": int(np.isin(result.status, ["optimal", "infeasible"]).sum()),
            "invalid": int((answered & ~self.valid).sum()),
            "bulk_s_per_row": self.bulk_mean_s,
            "bulk_median_s": float(np.median(self.bulk_s)),
            "bulk_p95_s": float(np.percentile(self.bulk_s, 95)),
            "latency_median_s": float(np.median(self.latency_s)),
            "latency_p95_s": float(np.percentile(self.latency_s, 95)),
            "visits_median": float(np.median(result.visits)),
            "search_median_s": float(np.median(self.search_s)),
        }

    def beside(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The peer's figures, ratios to gpucf on the same rows, and every difference explained."""
        answers = asked["answers"]
        proved = [a for a in answers if a["status"] in ("optimal", "infeasible")]
        at = np.array([a["row"] for a in proved], int)
        seconds = np.array([a["seconds"] for a in proved])
        differences = [
            {"row": a["row"], "peer": a.get("cost"), "gpucf": float(self.cost[a["row"]]), "why": why}
            for a in proved
            if (why := self.difference(a))
        ]
        given = [a for a in answers if "x" in a]
        out = {
            "workers": asked["workers"],
            "build_s": asked["build_s"],
            "rows": len(answers),
            "proved": len(proved),
            "median_s": float(np.median(seconds)) if len(at) else None,
            "p95_s": float(np.percentile(seconds, 95)) if len(at) else None,
            "ratio_search": float(np.median(seconds) / np.median(self.search_s[at])) if len(at) else None,
            "ratio_bulk": float(np.median(seconds) / np.median(self.bulk_s[at])) if len(at) else None,
            "ratio_bulk_mean": float(np.median(seconds) / self.bulk_mean_s) if len(at) else None,
            "ratio_latency": float(np.median(seconds) / np.median(self.latency_s[at])) if len(at) else None,
            "invalid": sum(not self._flips(a) for a in given),
            "agreeing": len(proved) - len(differences),
            "gpucf_wrong": sum(d["why"].startswith("GPUCF") for d in differences),
            "differences": differences,
            "errors": dict(Counter(a["error"] for a in answers if "error" in a)),
        }
        return out | ({"trouble": asked["trouble"]} if asked["trouble"] else {})

    def _flips(self, answer: dict[str, Any]) -> bool:
        return int(self.model.predict(np.array([answer["x"]]))[0]) == self.wanted[answer["row"]]

    def difference(self, answer: dict[str, Any]) -> str | None:
        """Why a proved answer of the peer is not gpucf's; None where they agree."""
        i = answer["row"]
        if self.status[i] not in ("optimal", "infeasible"):
            return f"gpucf has not proved this row ({self.status[i]})"
        if answer["status"] == self.status[i] == "infeasible":
            return None
        if answer["status"] == "infeasible":
            return self._peer_missed(i, "the peer says that there is none")
        if self.status[i] == "infeasible":
            return "GPUCF says that there is none" if self._flips(answer) else "the peer's point keeps the class"
        more = answer["cost"] - self.cost[i]
        if abs(more) <= SAME_COST:
            return None
        if more > 0:
            return self._peer_missed(i, f"the peer is dearer by {more:.3g}")
        if not self._flips(answer):
            return "the peer's point keeps the class, by the library's own predict"
        real = self._cost_of(i, np.array(answer["x"]))
        if real >= self.cost[i] - SAME_COST:
            return f"the peer's own point costs {real:.9g}, not what it says"
        return f"GPUCF is dearer by {-more:.3g}"

    def _peer_missed(self, i: int, what: str) -> str:
        if not self.valid[i]:
            return f"GPUCF's point keeps the class, and {what}"
        score = abs(self._score(self.points[i]))
        if score <= AT_THE_THRESHOLD:
            return f"{what}: gpucf's point is valid with a score {score:.2g} from the threshold, which it rounds away"
        return f"{what}: it missed gpucf's point, which is valid (score {score:.2g} from the threshold)"

    def _score(self, x: np.ndarray) -> float:
        if hasattr(self.model, "get_booster"):
            return float(self.model.predict(x[None], output_margin=True)[0])
        return float(np.diff(self.model.predict_proba(x[None])[0])[0])

    def _cost_of(self, i: int, x: np.ndarray) -> float:
        return float(self.weight @ np.abs(x - self.rows[i].astype(float)))


def _timed(engine: gpucf.Engine, rows: np.ndarray) -> tuple[float, gpucf.Result]:
    start = time.perf_counter()
    result = engine.query(rows, scale=None)
    return time.perf_counter() - start, result


def table(lines: list[dict[str, Any]]) -> str:
    """What the benchmark prints at its end."""
    head = (
        "model",
        "peer",
        "rows",
        "proved",
        "median s",
        "p95 s",
        "/ search",
        "/ bulk",
        "/ latency",
        "agree",
        "invalid",
    )
    body = [head]
    for line in lines:
        figures = (_short(line[key]) for key in ("median_s", "p95_s", *RATIOS))
        agree = f"{line['agreeing']}/{line['proved']}"
        body.append((line["model"], line["peer"], str(line["rows"]), str(line["proved"]), *figures, agree,
                     str(line["invalid"])))  # fmt: skip
    widths = [max(len(row[k]) for row in body) for k in range(len(head))]
    return "\n".join("  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip() for row in body)


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
