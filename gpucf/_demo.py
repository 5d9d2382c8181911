"""``gpucf demo``: German credit, every declined applicant explained.

Data: H. Hofmann, Statlog (German Credit Data), UCI Machine Learning Repository, 1994, doi:10.24432/C5NC77, CC BY 4.0.
"""

from __future__ import annotations

import sys
import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucf._errors import TableError

if TYPE_CHECKING:
    from gpucf._engine import Engine
    from gpucf._result import Result

CITATION = (
    "Data: H. Hofmann, Statlog (German Credit Data), UCI Machine Learning Repository, 1994, doi:10.24432/C5NC77, "
    "CC BY 4.0."
)
GROUPED = ("Sex", "Housing", "Purpose")
ACCEPTED = 1
_SHOWN = 3


def run_demo(output: str) -> int:
    """Explain, print, write the table and the picture; returns the exit code."""
    from rich.console import Console

    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TableError(f"cannot write to the folder {folder}: {error.strerror or error}") from error
    console = Console(highlight=False, markup=False)
    console.print("Reading 1,000 loan applicants and a model of 20 trees ...")
    people = load_people()
    engine, table, groups = open_engine(people)
    declined = np.flatnonzero(classes_of(engine, table) != ACCEPTED)
    start = time.perf_counter()
    engine.region_map(ACCEPTED)
    console.print(f"Region map ready after {time.perf_counter() - start:.1f} s (compiling included).")
    rows = table.take(declined)
    engine.query(rows.slice(0, 1), **QUERY)  # compiles, so that the rate below is that of queries
    start = time.perf_counter()
    result = engine.query(rows, **QUERY)
    time_s = time.perf_counter() - start
    print_examples(console, result, declined)
    print_summary(console, result, engine, time_s)
    write_inputs(folder, rows)
    path = folder / "german-counterfactuals.csv"
    write_result(path, people.take(declined), declined, result, groups)
    console.print(f"\nTable:   {path}")
    console.print(f"To ask:  {folder / 'german-model.json'}, german-declined.parquet, german-features.yaml")
    _draw(console, folder / "german-regions.png", engine, result, declined)
    console.print(CITATION, style="dim")
    return 0


QUERY: dict[str, Any] = {"target": ACCEPTED, "cost": "l1", "immutable": ["Sex"], "increase_only": ["Age"]}


def load_people() -> Any:
    """The applicants as a pyarrow Table: whole numbers, and text for the grouped columns."""
    from pyarrow import csv

    with (files("gpucf") / "_data" / "german.csv").open("rb") as f:
        return csv.read_csv(f)


def one_hot_columns(people: Any) -> tuple[Any, dict[str, list[str]]]:
    """What the model was trained on, columns ``Sex=female`` and so on for the grouped ones, and the groups."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns: dict[str, Any] = {}
    groups: dict[str, list[str]] = {}
    for name in people.column_names:
        if name == "Accepted":
            continue
        if name not in GROUPED:
            columns[name] = people[name]
            continue
        for value in sorted(people[name].unique().to_pylist()):
            column = f"{name}={value}"
            groups.setdefault(name, []).append(column)
            columns[column] = pc.equal(people[name], value).cast(pa.int64())
    return pa.table(columns), groups


def open_engine(people: Any) -> tuple[Engine, Any, dict[str, list[str]]]:
    """The engine on the shipped model, the table that it reads, and its one-hot groups."""
    from gpucf._engine import Engine

    table, groups = one_hot_columns(people)
    with as_file(files("gpucf") / "_data" / "german-model.json") as path:
        return Engine(path, background=table, one_hot=groups), table, groups


def classes_of(engine: Engine, table: Any) -> np.ndarray:
    """Class of each row, as the model's library decides it."""
    from gpucf._links import classes_from_raw
    from gpucf._predict import predict_raw
    from gpucf._table import read_table

    values = read_table(table, engine.ensemble).values
    return classes_from_raw(engine.ensemble, predict_raw(engine.ensemble, values))


def print_examples(console: Any, result: Result, declined: np.ndarray) -> None:
    """Three applicants: a near one, a middling one, a far one."""
    from rich.table import Table

    order = np.argsort(result.cost, kind="stable")
    order = order[np.isfinite(result.cost[order])]
    if not len(order):
        return
    for share in np.linspace(0.1, 0.9, _SHOWN):
        i = int(order[int(share * (len(order) - 1))])
        console.print(f"\nApplicant {declined[i]}: declined; accepted after")
        table = Table()
        for name in ("feature", "from", "to"):
            table.add_column(name)
        table.add_column("cost", justify="right")
        for change in result.changes(i):
            table.add_row(change["feature"], _shown(change["from"]), _shown(change["to"]), f"{change['cost']:.4f}")
        table.add_section()
        table.add_row("together", "", "", f"{result.cost[i]:.4f}")
        console.print(table)


def print_summary(console: Any, result: Result, engine: Engine, time_s: float) -> None:
    """Counts, rate and costs."""
    from rich.table import Table

    summary = result.summary()
    proved = summary["optimal"] + summary["already"] + summary["infeasible"]
    console.print("\nAll declined applicants")
    table = Table(show_header=False)
    for name, value in [
        ("rows", f"{summary['rows']:,}"),
        ("proved", f"{proved:,} ({summary['infeasible']:,} of them: nothing qualifies)"),
        ("rows per second", f"{len(result) / time_s:,.0f}"),
        ("median cost", f"{summary['median_cost']:.4f}" if summary["median_cost"] is not None else "-"),
        ("answered by", result.plan["method"]),
        ("checked by", result.verified_by),
        ("rules", "Sex stays, Age may only rise; unit: the column's range, 1 for another category"),
    ]:
        table.add_row(name, value)
    console.print(table)


FEATURES: dict[str, Any] = {
    "Age": {"kind": "integer", "range": [18, 100], "increase_only": True, "scale": 10},
    "Sex": {"one_hot": ["Sex=female", "Sex=male"], "immutable": True},
    "Job": {"levels": [0, 1, 2, 3]},
    "Savings": {"levels": [0, 1, 2, 3, 4], "increase_only": True},
    "Checking": {"levels": [0, 1, 2, 3], "increase_only": True},
    "Amount": {"kind": "integer", "step": 100, "range": [200, 20_000], "decrease_only": True, "scale": 1000},
    "Months": {"kind": "integer", "step": 3, "range": [3, 72], "scale": 12},
    "Housing": {"one_hot": ["Housing=free", "Housing=own", "Housing=rent"]},
    "Purpose": {
        "one_hot": [
            f"Purpose={name}"
            for name in (
                "business",
                "car",
                "domestic appliances",
                "education",
                "furniture/equipment",
                "radio/TV",
                "repairs",
                "vacation/others",
            )
        ],
        "immutable": True,
    },
    "rules": ["if Job changes then Age rises"],
}
NOTES = {
    "Age": ("ten years count as one change of category",),
    "Job": ("unskilled and foreign, unskilled, skilled, highly skilled",),
    "Savings": ("none known, little, moderate, quite rich, rich",),
    "Checking": ("none known, little, moderate, rich",),
    "Amount": ("in hundreds",),
}


def write_inputs(folder: Path, declined: Any) -> None:
    """What `gpucf query` asks for: the model, the declined applicants, and what they can change."""
    import pyarrow.parquet as pq

    from gpucf._features import Features
    from gpucf._stream import writable

    with writable(folder / "german-declined.parquet"):
        pq.write_table(declined, folder / "german-declined.parquet")
    Features(FEATURES, NOTES).to_file(folder / "german-features.yaml")
    with as_file(files("gpucf") / "_data" / "german-model.json") as path:
        (folder / "german-model.json").write_bytes(path.read_bytes())


def write_result(path: Path, people: Any, numbers: np.ndarray, result: Result, groups: dict[str, list[str]]) -> None:
    """The applicants with their new values, one-hot groups folded back to words."""
    import pyarrow as pa

    from gpucf._stream import write_csv

    after = result.counterfactuals
    columns: dict[str, Any] = {"Applicant": pa.array(numbers)}
    for name in people.column_names:
        if name in groups:
            hot = np.column_stack([after[column].to_numpy() for column in groups[name]])
            words = [column.partition("=")[2] for column in groups[name]]
            columns[name] = pa.array([words[k] for k in hot.argmax(axis=1).tolist()])
        elif name in after.column_names:
            columns[name] = after[name]
    columns["gpucf_status"] = pa.array(result.status.tolist(), pa.string())
    columns["gpucf_cost"] = pa.array(result.cost)
    columns["gpucf_changed"] = pa.array(result.n_changed)
    table = pa.table(columns)
    write_csv(path, table)


def _draw(console: Any, path: Path, engine: Engine, result: Result, declined: np.ndarray) -> None:
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError:
        console.print("Picture: not drawn, matplotlib is not installed (pip install 'gpucf[plot]')")
        return
    from gpucf._plot import draw_regions
    from gpucf._stream import writable

    with writable(path):
        draw_regions(path, engine, result, ACCEPTED, declined)
    console.print(f"Picture: {path}")


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value.partition("=")[2] or value
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


if __name__ == "__main__":
    sys.exit(run_demo("demo-output"))
