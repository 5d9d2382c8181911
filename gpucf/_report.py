"""The files of an audit: the report for people, and what machines and CI read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from gpucf._audit_gate import HELD, VIOLATED, Verdict, check, overall
from gpucf._audit_result import Audit
from gpucf._audit_text import summary
from gpucf._errors import TableError
from gpucf._report_html import page
from gpucf._stream import writable, write_csv


def write_report(
    audit: Audit, folder: str | os.PathLike[str], thresholds: Any = (), about: Mapping[str, Any] | None = None
) -> list[Verdict]:
    """See `Audit.write`."""
    where = Path(folder)
    verdicts = check(audit, list(thresholds))
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TableError(f"cannot write to the folder {where}: {error.strerror or error}.") from error
    about = {**audit.about, **(about or {})}
    found = {
        **audit.to_dict(),
        "about": about,
        "verdict": overall(verdicts) if verdicts else None,
        "thresholds": [dict(t) for t in thresholds],
        "verdicts": [v.__dict__ for v in verdicts],
    }
    texts = {
        "audit.json": json.dumps(found, indent=1, allow_nan=False) + "\n",
        "junit.xml": junit(verdicts),
        "summary.txt": summary(audit, verdicts) + "\n",
        "index.html": page(audit, verdicts, about),
    }
    for name, text in texts.items():
        with writable(where / name):
            (where / name).write_text(text, encoding="utf-8")
    write_columns(where / "rows.csv", {"row": np.arange(audit.n), **audit.rows})
    write_columns(where / "flips.csv", flips(audit))
    return verdicts


def junit(verdicts: Sequence[Verdict]) -> str:
    """Thresholds as test cases: violated ones are failures, undecided ones errors."""
    failed = [v for v in verdicts if v.state == VIOLATED]
    open_ = [v for v in verdicts if v.state not in (HELD, VIOLATED)]
    counts = {"tests": str(len(verdicts)), "failures": str(len(failed)), "errors": str(len(open_))}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "gpucf audit", **counts})
    for v in verdicts:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "gpucf.audit", "name": v.name})
        if v.state == HELD:
            ElementTree.SubElement(case, "system-out").text = v.text
        else:
            tag = "failure" if v.state == VIOLATED else "error"
            ElementTree.SubElement(case, tag, {"message": v.text, "type": v.state})
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def flips(audit: Audit) -> dict[str, np.ndarray]:
    """All decisions that turn when only one attribute changes, of all attributes."""
    names = ("row", "from", "to", "before", "after")
    parts = [s for s in audit.sensitivity if len(s.pairs.get("row", ()))]
    columns: dict[str, np.ndarray] = {
        "attribute": np.concatenate(
            [np.zeros(0, object), *(np.full(len(s.pairs["row"]), s.attribute, object) for s in parts)]
        )
    }
    for name in names:
        kind = np.int64 if name == "row" else object
        columns[name] = np.concatenate([np.zeros(0, kind), *(s.pairs[name] for s in parts)])
    return columns


def write_columns(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """A CSV file of arrays; text columns are arrays of objects."""
    import pyarrow as pa

    table = pa.table(
        {
            name: pa.array(values.tolist(), pa.string()) if values.dtype == object else pa.array(values)
            for name, values in columns.items()
        }
    )
    write_csv(path, table)
