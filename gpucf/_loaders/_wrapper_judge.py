"""The judge of pipelines and other wrappers: their own `predict`, on the raw rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gpucf._ensemble import Ensemble
from gpucf._errors import TableError
from gpucf._judge import Judge
from gpucf._loaders import _sklearn_common as common
from gpucf._loaders._nesting import innermost, inside, is_wrapper, settled
from gpucf._loaders._raw_probe import dense
from gpucf._loaders._transformers import flat_steps
from gpucf._table import Table, column_at


def wrapper_judge(obj: Any, ensemble: Ensemble) -> Judge:
    """`predict` and `predict_proba` of the outermost object; raw scores of the model inside."""
    import sklearn

    own = settled(obj)
    classes = ensemble.classes

    def ask(method: str, rows: Any) -> np.ndarray:
        # From one row NumPy adds up a softmax in another order than from a table; a table is what defines.
        single = len(rows) == 1
        if single:
            rows = rows.iloc[[0, 0]] if hasattr(rows, "iloc") else np.concatenate([rows, rows])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # unknown levels, bare arrays: said where the rows are read
                answer = np.asarray(getattr(own, method)(rows))
        except (ValueError, TypeError, KeyError) as error:
            message = " ".join(str(error).split())
            raise TableError(f"{common.kind(obj)}.{method} refuses the rows: {message}") from error
        return answer[:1] if single else answer

    def class_index(rows: Any) -> np.ndarray:
        if classes is None:
            return common.no_classes(rows)
        return common.label_positions(ask("predict", rows), classes)

    return Judge(
        f"scikit-learn {sklearn.__version__} {common.kind(obj)}",
        class_index=class_index,
        probability=lambda rows: ask("predict_proba", rows).astype(np.float64),
        raw=lambda rows: _raw(own, rows),
        rows=None if ensemble.raw is None else _raw_rows(obj),
    )


def _raw(obj: Any, rows: Any) -> np.ndarray:
    """Raw scores of the innermost model, of rows that have gone through the transformers."""
    from gpucf import _loaders

    while is_wrapper(obj):
        if common.kind(obj) == "Pipeline":
            for _, step in flat_steps(obj)[:-1]:
                rows = rows if step is None or isinstance(step, str) else step.transform(rows)
            obj = flat_steps(obj)[-1][1]
        else:
            obj = inside(obj)
    model = innermost(obj)
    if hasattr(rows, "toarray"):
        rows = dense(rows, type(model).__module__.startswith("xgboost"))
    judge = _loaders.open_judge(model, _loaders.load_model(model))
    if judge is None:
        raise TypeError(f"{type(model)} has no judge")
    return judge.raw(rows)


def _raw_rows(obj: Any) -> Callable[[Table], Any]:
    """A function from a table to the rows as the pipeline takes them."""
    names = getattr(obj, "feature_names_in_", None)
    known = None if names is None else [str(name) for name in names]

    def rows(table: Table) -> Any:
        if table.kind == "numpy" and known is None:
            return table.native
        if table.kind == "pandas":
            columns = [str(name) for name in table.native.columns]
            at = list(table.positions) if known is None else [columns.index(name) for name in known if name in columns]
            return table.native.iloc[:, at]
        cells = [_cells(table, j) for j in range(len(table.names))]
        if known is not None:
            import pandas as pd

            return pd.DataFrame(dict(zip(table.names, cells, strict=True)))
        if any(c.dtype == object for c in cells):
            cells = [c.astype(object) for c in cells]
        return np.column_stack(cells)

    return rows


def _cells(table: Table, j: int) -> np.ndarray:
    """One column of a table that scikit-learn would not take itself, with NaN for missing values."""
    column = column_at(table.kind, table.native, table.positions[j])
    cells = column.to_pylist() if table.kind == "pyarrow" else column.to_list() if table.kind == "polars" else column
    dtype = table.dtypes[j]
    if dtype is None:
        out = np.empty(len(cells), object)
        out[:] = [np.nan if cell is None else cell for cell in cells]
        return out
    if any(cell is None for cell in cells):
        return np.asarray([np.nan if cell is None else float(cell) for cell in cells], dtype=np.float64)
    return np.asarray(cells, dtype=dtype)
