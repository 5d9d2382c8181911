"""The one door for tables: what comes in is read exactly, what is wrong is named, what goes out keeps every bit."""

# ruff: noqa: E501 - one wrong table a line, with its message

from __future__ import annotations

import struct

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from gpucf._ensemble import TreeBuilder
from gpucf._errors import GpucfError, OptionError, TableError, VerificationError
from gpucf._table import columns_frame, read_table, with_values

FRAMES = ["pandas", "polars", "pyarrow"]
PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000ABCDEF))[0]


def make_ensemble(names=("a", "b"), *, named=True, categories=None, compare=np.float32, missing=True, library="x"):
    builder = TreeBuilder("a test", len(names), compare, compare)
    builder.add_tree([0], [0], [-1], [-1], [False], [1.0])
    return builder.build(
        0.0, library=library, model_type="x", task="binary", feature_names=tuple(names), has_names=named,
        classes=np.array([0, 1]), allows_missing=np.full(len(names), missing), decision="xgb_logistic",
        probability="xgb_logistic", categories=categories or (None,) * len(names),
    )  # fmt: skip


def frame(kind, columns):
    return nw.from_dict(columns, backend=kind).to_native()


def names_of(native):
    return list(native.column_names if isinstance(native, pa.Table) else native.columns)


def bits(array):
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
def test_frames_are_matched_by_name(kind, order):
    data = {"a": [1.5, -2.0], "b": [3.0, 4.0]}
    X = frame(kind, {name: data[name] for name in order})
    table = read_table(X, make_ensemble())
    assert table.kind == kind
    assert table.names == ("a", "b")
    assert table.values.tolist() == [[1.5, 3.0], [-2.0, 4.0]]
    assert table.positions == tuple(order.index(name) for name in "ab")
    changed = np.array([[True, False], [False, True]])
    out = with_values(table, make_ensemble(), np.array([[7.0, 0], [0, 8.0]]), changed)
    assert type(out) is type(X)
    assert names_of(out) == order
    assert read_table(out, make_ensemble()).values.tolist() == [[7.0, 3.0], [-2.0, 8.0]]
    assert table.values.tolist() == read_table(X, make_ensemble()).values.tolist()  # X itself is untouched


@pytest.mark.parametrize("kind", FRAMES)
def test_carried_columns_ride_along(kind):
    X = frame(kind, {"id": ["x", "y"], "b": [1.0, 2.0], "a": [3.0, 4.0]})
    table = read_table(X, make_ensemble(), carry=["id"])
    out = with_values(table, make_ensemble(), table.values + 1, np.array([[True, False], [False, False]]))
    assert names_of(out) == ["id", "b", "a"]
    assert nw.from_native(out, eager_only=True)["id"].to_list() == ["x", "y"]
    assert read_table(out, make_ensemble(), carry="id").values.tolist() == [[4.0, 1.0], [4.0, 2.0]]


@pytest.mark.parametrize("kind", FRAMES)
def test_a_model_without_names_is_matched_by_position(kind):
    ensemble = make_ensemble(("f0", "f1"), named=False)
    X = frame(kind, {"u": [1.0], "id": [9], "v": [2.0]})
    table = read_table(X, ensemble, carry=["id"])
    assert table.names == ("u", "v")
    assert table.positions == (0, 2)
    assert table.values.tolist() == [[1.0, 2.0]]


def test_integer_column_names():
    X = pd.DataFrame(np.array([[1.0, 2.0]]))
    assert read_table(X, make_ensemble(named=False)).names == ("0", "1")
    assert read_table(X[[1, 0]], make_ensemble(("0", "1"))).values.tolist() == [[1.0, 2.0]]
    assert read_table(X, make_ensemble(("f0",), named=False), carry=(1,)).values.tolist() == [[1.0]]


def test_lightgbm_writes_blanks_as_underscores():
    X = pd.DataFrame({"b c": [2.0], "a": [1.0]})
    ensemble = make_ensemble(("a", "b_c"), library="lightgbm")
    assert read_table(X, ensemble).values.tolist() == [[1.0, 2.0]]
    with pytest.raises(TableError, match="lacks 'b_c'"):
        read_table(X, make_ensemble(("a", "b_c")))


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int64", "uint64", "bool", "float16", "float32", "float64"]
)
@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars", "pyarrow"])
def test_every_dtype_comes_back(kind, dtype):
    ensemble = make_ensemble(compare=np.float64)
    source = {"a": np.array([1, 0, 1], dtype), "b": np.array([0, 1, 1], dtype)}
    X = np.column_stack([source["a"], source["b"]]) if kind == "numpy" else frame(kind, source)
    table = read_table(X, ensemble)
    assert table.dtypes == (np.dtype(dtype),) * 2
    assert table.values.tolist() == [[1, 0], [0, 1], [1, 1]]
    changed = np.array([[True, False], [False, True], [False, False]])
    out = with_values(table, ensemble, 1 - table.values, changed)
    again = read_table(out, ensemble)
    assert again.dtypes == table.dtypes
    assert again.values.tolist() == [[0, 0], [0, 0], [1, 1]]
    if kind == "numpy":
        assert out.dtype == dtype
    elif kind in ("pyarrow", "polars"):
        assert out.schema == X.schema
    else:
        assert out.dtypes.tolist() == X.dtypes.tolist()


@pytest.mark.parametrize(
    ("dtype", "storage"),
    [("Int64", "int64"), ("UInt8", "uint8"), ("Float32", "float32"), ("boolean", "bool"), ("int64[pyarrow]", "int64"),
     ("double[pyarrow]", "float64"), ("bool[pyarrow]", "bool")],
)  # fmt: skip
def test_pandas_nullable_columns(dtype, storage):
    X = pd.DataFrame({"a": pd.array([1, None, 0], dtype=dtype), "b": [1.0, 2.0, 3.0]}, index=[9, 4, 7])
    table = read_table(X, make_ensemble())
    assert table.dtypes[0] == np.dtype(storage)
    np.testing.assert_array_equal(table.values[:, 0], [1, np.nan, 0])
    changed = np.array([[False, False], [False, False], [True, False]])
    out = with_values(table, make_ensemble(), np.ones((3, 2)), changed)
    assert out["a"].dtype == X["a"].dtype
    assert out["a"].isna().tolist() == [False, True, False]
    assert out["a"].tolist()[2] == 1
    assert out.index.tolist() == [9, 4, 7]
    filled = with_values(table, make_ensemble(), np.full((3, 2), np.nan), changed)
    assert filled["a"].isna().tolist() == [False, True, True]


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_nulls_stay_nulls(kind):
    X = frame(kind, {"a": [1, None, 3], "b": [None, 2.5, None]})
    table = read_table(X, make_ensemble())
    np.testing.assert_array_equal(table.values, [[1, np.nan], [np.nan, 2.5], [3, np.nan]])
    changed = np.zeros((3, 2), bool)
    changed[2, 0] = changed[1, 1] = True
    out = with_values(table, make_ensemble(), np.full((3, 2), 5.0), changed)
    assert nw.from_native(out, eager_only=True).to_dict(as_series=False) == {"a": [1, None, 5], "b": [None, 5.0, None]}


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars", "pyarrow"])
def test_untouched_cells_keep_every_bit(kind):
    cells = np.array([PAYLOAD, -0.0, 5e-324, 0.1, 1.0])
    source = {"a": cells, "b": cells[::-1].copy()}
    X = np.column_stack(list(source.values())) if kind == "numpy" else frame(kind, source)
    table = read_table(X, make_ensemble(compare=np.float64))
    changed = np.zeros((5, 2), bool)
    changed[4, 0] = True
    out = with_values(table, make_ensemble(compare=np.float64), np.full((5, 2), 2.0), changed)
    a = out[:, 0] if kind == "numpy" else nw.from_native(out, eager_only=True)["a"].to_numpy()
    b = out[:, 1] if kind == "numpy" else nw.from_native(out, eager_only=True)["b"].to_numpy()
    assert bits(a[:4]) == bits(cells[:4])
    assert a[4] == 2.0
    assert bits(b) == bits(cells[::-1])


@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_keeps_its_memory_order(order):
    X = np.asarray(np.arange(12.0).reshape(4, 3), order=order)
    X.setflags(write=False)
    table = read_table(X, make_ensemble(("a", "b", "c")))
    out = with_values(table, make_ensemble(("a", "b", "c")), np.zeros((4, 3)), np.eye(4, 3, dtype=bool))
    assert out.flags[f"{order}_CONTIGUOUS"]
    assert out.flags.writeable
    assert out[0, 0] == 0.0
    assert out[3].tolist() == [9.0, 10.0, 11.0]


def test_pandas_keeps_index_attrs_and_column_labels():
    X = pd.DataFrame({"b": [1, 2], "a": [1.0, 2.0]}, index=pd.Index(["u", "t"], name="who"))
    X.attrs["source"] = "here"
    X.columns.name = "what"
    table = read_table(X, make_ensemble())
    out = with_values(table, make_ensemble(), np.full((2, 2), 3.0), np.array([[True, True], [False, False]]))
    assert out.attrs == {"source": "here"}
    assert out.columns.equals(X.columns)
    assert out.columns.name == "what"
    assert out.index.equals(X.index)
    assert out.index.name == "who"
    assert out.loc["u"].tolist() == [3, 3.0]
    assert out.dtypes.tolist() == X.dtypes.tolist()


def test_arrow_keeps_metadata_and_nullability():
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False, metadata={"u": "v"}), pa.field("b", pa.float64())])
    X = pa.table({"a": [1, 2], "b": [1.0, 2.0]}, schema=schema).replace_schema_metadata({"k": "v"})
    table = read_table(X, make_ensemble())
    out = with_values(table, make_ensemble(), np.full((2, 2), 3.0), np.array([[True, True], [False, False]]))
    assert out.schema.equals(X.schema, check_metadata=True)


def test_chunked_and_sliced_columns():
    chunks = pa.chunked_array([pa.array([0.0, 1.0, None])[1:], pa.array([2.0])])
    X = pa.table({"a": chunks, "b": pa.chunked_array([[1], [2, 3]])})
    table = read_table(X, make_ensemble())
    np.testing.assert_array_equal(table.values, [[1, 1], [np.nan, 2], [2, 3]])
    out = with_values(table, make_ensemble(), np.full((3, 2), 9.0), np.array([[0, 0], [0, 1], [1, 0]], bool))
    assert out.to_pydict() == {"a": [1.0, None, 9.0], "b": [1, 9, 3]}
    big = pl.concat([pl.DataFrame({"a": [1.0], "b": [2]}), pl.DataFrame({"a": [3.0], "b": [4]})], rechunk=False)
    out = with_values(read_table(big, make_ensemble()), make_ensemble(), np.full((2, 2), 9.0), np.eye(2, dtype=bool))
    assert out.to_dict(as_series=False) == {"a": [9.0, 3.0], "b": [2, 9]}


CATEGORICAL = {
    "pandas category": lambda v: pd.DataFrame({"a": [0.0] * 3, "b": pd.Categorical(v, categories=["z", "y", "x"])}),
    "pandas ordered": lambda v: pd.DataFrame({"a": [0.0] * 3, "b": pd.Categorical(v, ["z", "y", "x"], ordered=True)}),
    "pandas str": lambda v: pd.DataFrame({"a": [0.0] * 3, "b": v}),
    "pandas object": lambda v: pd.DataFrame({"a": [0.0] * 3, "b": pd.Series(v, dtype=object)}),
    "polars Categorical": lambda v: pl.DataFrame({"a": [0.0] * 3, "b": pl.Series(v, dtype=pl.Categorical)}),
    "polars Enum": lambda v: pl.DataFrame({"a": [0.0] * 3, "b": pl.Series(v, dtype=pl.Enum(["z", "y", "x"]))}),
    "polars String": lambda v: pl.DataFrame({"a": [0.0] * 3, "b": v}),
    "arrow dictionary": lambda v: pa.table(
        {"a": [0.0] * 3, "b": pa.chunked_array([pa.array(v[:1]).dictionary_encode(), pa.array(v[1:]).dictionary_encode()])}
    ),
    "arrow string": lambda v: pa.table({"a": [0.0] * 3, "b": pa.array(v)}),
    "arrow large_string": lambda v: pa.table({"a": [0.0] * 3, "b": pa.array(v, pa.large_string())}),
    "numpy object": lambda v: np.array([[0.0, c] for c in v], dtype=object),
}  # fmt: skip


def cells_of(native):
    cells = (
        native[:, 1].tolist()
        if isinstance(native, np.ndarray)
        else nw.from_native(native, eager_only=True)["b"].to_list()
    )
    return [None if cell is None or cell != cell else cell for cell in cells]  # pandas' text columns hold NaN


@pytest.mark.parametrize("kind", CATEGORICAL)
def test_categories_are_matched_by_value(kind):
    known = np.array(["x", "y", "z"], dtype=object)
    ensemble = make_ensemble(categories=(None, known))
    X = CATEGORICAL[kind](["y", None, "x"])
    table = read_table(X, ensemble)
    np.testing.assert_array_equal(table.values[:, 1], [1, np.nan, 0])
    assert table.dtypes[1] is None
    changed = np.array([[False, False], [False, False], [False, True]])
    out = with_values(table, ensemble, np.full((3, 2), 2.0), changed)
    assert type(out) is type(X)
    assert cells_of(out) == ["y", None, "z"]
    assert cells_of(with_values(table, ensemble, np.full((3, 2), np.nan), changed)) == ["y", None, None]
    if isinstance(X, pd.DataFrame):
        assert out["b"].dtype == X["b"].dtype
    elif isinstance(X, pa.Table | pl.DataFrame):
        assert out.schema == X.schema


def test_a_category_that_the_column_lacks_is_appended():
    ensemble = make_ensemble(categories=(None, np.array(["x", "y", "z"], dtype=object)))
    X = pd.DataFrame({"a": [0.0, 0.0], "b": pd.Categorical(["y", "x"], categories=["y", "x"])})
    changed = np.array([[False, True], [False, False]])
    out = with_values(read_table(X, ensemble), ensemble, np.full((2, 2), 2.0), changed)
    assert out["b"].cat.categories.tolist() == ["y", "x", "z"]
    assert out["b"].tolist() == ["z", "x"]
    Y = pl.DataFrame({"a": [0.0, 0.0], "b": pl.Series(["y", "x"], dtype=pl.Enum(["y", "x"]))})
    out = with_values(read_table(Y, ensemble), ensemble, np.full((2, 2), 2.0), changed)
    assert out["b"].dtype == pl.Enum(["y", "x", "z"])
    assert out["b"].to_list() == ["z", "x"]


def test_numeric_categories():
    ensemble = make_ensemble(categories=(None, np.array([10, 20, 30])))
    for X in [np.array([[0.0, 20.0], [0.0, np.nan]]), pd.DataFrame({"a": [0, 0], "b": pd.array([20, None], "Int8")}),
              pa.table({"a": [0, 0], "b": pa.array([20, None], pa.int16())})]:  # fmt: skip
        table = read_table(X, ensemble)
        np.testing.assert_array_equal(table.values[:, 1], [1, np.nan])
        out = with_values(table, ensemble, np.full((2, 2), 2.0), np.array([[False, True], [False, False]]))
        np.testing.assert_array_equal(read_table(out, ensemble).values[:, 1], [2, np.nan])
        assert read_table(out, ensemble).dtypes == table.dtypes


@pytest.mark.parametrize("kind", ["numpy", *FRAMES])
def test_empty_tables(kind):
    X = np.empty((0, 2)) if kind == "numpy" else frame(kind, {"a": np.empty(0), "b": np.empty(0)})
    table = read_table(X, make_ensemble())
    assert table.values.shape == (0, 2)
    out = with_values(table, make_ensemble(), np.empty((0, 2)), np.empty((0, 2), bool))
    assert type(out) is type(X)
    assert len(out) == 0


@pytest.mark.parametrize("kind", FRAMES)
def test_an_empty_table_with_categories(kind):
    ensemble = make_ensemble(categories=(None, np.array(["x"], dtype=object)))
    X = nw.from_native(frame(kind, {"a": [1.0], "b": ["x"]}), eager_only=True).head(0).to_native()
    assert read_table(X, ensemble).values.shape == (0, 2)


def test_a_frame_with_one_column():
    assert read_table(pd.DataFrame({"a": [1, 2]}), make_ensemble(("a",))).values.tolist() == [[1.0], [2.0]]


def test_object_columns_of_numbers():
    X = np.array([[1, 2.5], [2, None], [np.int8(3), float("nan")]], dtype=object)
    table = read_table(X, make_ensemble())
    np.testing.assert_array_equal(table.values, [[1, 2.5], [2, np.nan], [3, np.nan]])
    assert table.dtypes == (np.dtype(np.int64), np.dtype(np.float64))
    assert read_table(np.array([[True, False]], object), make_ensemble()).dtypes == (np.dtype(bool),) * 2
    out = with_values(
        table, make_ensemble(), np.full((3, 2), 7.0), np.array([[True, False], [False] * 2, [False, True]])
    )
    assert out.dtype == object
    assert out[0, 0] == 7
    assert isinstance(out[0, 0], int)
    assert out[1, 1] is None


def test_both_byte_orders():
    X = np.array([[1.5, 2.0]], dtype=">f8")
    table = read_table(X, make_ensemble())
    assert table.values.tolist() == [[1.5, 2.0]]
    out = with_values(table, make_ensemble(), np.full((1, 2), 4.0), np.array([[True, False]]))
    assert out.dtype == X.dtype
    assert out.tolist() == [[4.0, 2.0]]


@pytest.mark.parametrize("kind", ["numpy", *FRAMES])
def test_columns_frame_is_of_the_same_kind(kind):
    X = np.zeros((2, 2)) if kind == "numpy" else frame(kind, {"a": [1.0, 2.0], "b": [1.0, 2.0]})
    if kind == "pandas":
        X.index = [5, 3]
    made = columns_frame(
        read_table(X, make_ensemble()), {"status": np.array(["ok", "no"]), "cost": np.array([1.0, np.inf])}
    )
    if kind == "numpy":
        assert made["status"].tolist() == ["ok", "no"]
        return
    assert type(made) is type(X)
    assert nw.from_native(made, eager_only=True)["status"].to_list() == ["ok", "no"]
    assert nw.from_native(made, eager_only=True)["cost"].to_list() == [1.0, np.inf]
    if kind == "pandas":
        assert made.index.tolist() == [5, 3]


E = make_ensemble()
STRICT = make_ensemble(missing=False)
UNNAMED = make_ensemble(("f0", "f1"), named=False)
LETTERS = make_ensemble(categories=(None, np.array(["x", "y"], dtype=object)))
OK = [1.0, 2.0]
NAT = np.array(["2020-01-01", "NaT"], dtype="datetime64[D]")
WRONG = {
    "count": (np.zeros((2, 3)), E, "X has 3 columns, but the model was trained on 2. Pass the model's columns, in the order 'a', 'b'."),
    "count without names": (pl.DataFrame({"u": OK}), UNNAMED, "X has 1 columns, but the model was trained on 2. Pass the 2"),
    "one dimension": (np.zeros(2), E, r"1 dimension\(s\).*X.reshape\(1, -1\)"),
    "three dimensions": (np.zeros((1, 2, 2)), E, r"3 dimension\(s\)"),
    "missing column": (pd.DataFrame({"a": OK, "id": OK}), E, "X lacks 'b', which the model was trained on; it has 'a', 'id'"),
    "extra column": (pl.DataFrame({"a": OK, "b": OK, "id": OK}), E, "X has 'id', which the model does not know.*carry"),
    "duplicate column": (pd.DataFrame(np.zeros((2, 3)), columns=["a", "b", "a"]), E, "more than one column named 'a'"),
    "text in numbers": (pd.DataFrame({"a": OK, "b": ["1", "2"]}), E, "column 'b' holds str values, for example '1' in row 0"),
    "polars text": (pl.DataFrame({"a": OK, "b": ["1", "2"]}), E, "column 'b' holds .*string.* values, for example '1' in row 0"),
    "arrow text": (pa.table({"a": OK, "b": ["1", "2"]}), E, "column 'b' holds string values, for example '1' in row 0"),
    "categories in numbers": (pd.DataFrame({"a": OK, "b": pd.Categorical([1, 2])}), E, "column 'b' holds category values, for example 1"),
    "text array": (np.array([["u", "v"]]), E, "column 'a' holds text, for example 'u' in row 0"),
    "objects": (np.array([[1, 2], [3, "four"]], dtype=object), E, r"column 'b', row 1: 'four' is not a number \(it is a str\)"),
    "huge object": (np.array([[1, 2**70]], dtype=object), E, "column 'b', row 0: 1180591620717411303424 is too large an integer"),
    "complex": (np.zeros((1, 2), complex), E, "column 'a' holds complex numbers, for example 0j"),
    "dates": (pd.DataFrame({"a": OK, "b": NAT}), E, "column 'b' holds dates, for example .*2020"),
    "arrow dates": (pa.table({"a": OK, "b": pa.array(NAT)}), E, r"column 'b' holds date32\[day\] values, for example .*2020"),
    "time spans": (np.zeros((1, 2), "m8[s]"), E, "column 'a' holds time spans"),
    "decimals": (pa.table({"a": OK, "b": pa.array(OK).cast(pa.decimal128(5, 2))}), E, "column 'b' holds decimal128"),
    "inf": (np.array([[1.0, 2.0], [3.0, np.inf]]), E, "column 'b', row 1: inf is not a number that a row can hold"),
    "minus inf": (pl.DataFrame({"a": [1.0, -np.inf], "b": OK}), E, "column 'a', row 1: -inf"),
    "too large": (np.array([[1.0, 3.5e38]]), E, r"column 'b', row 0: 3.5e\+38 is too large for the model.*float32.*3.4028234663852886e\+38"),
    "NaN": (np.array([[1.0, 2.0], [np.nan, 2.0]]), STRICT, r"column 'a', row 1: the value is missing, .*1 row\(s\)"),
    "NA": (pd.DataFrame({"a": pd.array([None, 1], "Int64"), "b": OK}), STRICT, "column 'a', row 0: the value is missing"),
    "null": (pa.table({"a": OK, "b": [2.0, None]}), STRICT, "column 'b', row 1: the value is missing"),
    "int beyond 2**53": (np.array([[2**53 + 1, 1]]), E, r"column 'a', row 0: 9007199254740993 is an integer that float64 cannot hold"),
    "largest int64": (np.array([[2**63 - 1, 1]]), E, "row 0: 9223372036854775807 is an integer"),
    "largest uint64": (np.array([[2**64 - 1, 1]], np.uint64), E, "row 0: 18446744073709551615 is an integer"),
    "arrow int with null": (pa.table({"a": pa.array([2**53 + 1, None]), "b": OK}), E, "row 0: 9007199254740993 is an integer"),
    "unknown category": (pd.DataFrame({"a": OK, "b": ["x", "w"]}), LETTERS, "column 'b', row 1: 'w' is not a category.*'x', 'y'"),
    "category of another type": (pa.table({"a": OK, "b": [0, 1]}), LETTERS, "column 'b', row 0: 0 is not a category"),
    "sparse": (scipy.sparse.csr_matrix(np.eye(2)), E, r"X is sparse.*toarray\(\)"),
    "pandas sparse": (pd.DataFrame({"a": OK, "b": pd.arrays.SparseArray(OK)}), E, "column 'b' holds sparse values"),
    "masked": (np.ma.masked_array(np.zeros((1, 2)), mask=[[0, 1]]), E, r"X is a masked array.*filled"),
    "structured": (np.zeros(2, [("a", float), ("b", float)]), E, "X is a structured array"),
    "list": ([[1.0, 2.0]], E, "X is a builtins.list. Pass a 2-D numpy array"),
    "Series": (pd.Series(OK), E, "X is one column"),
    "LazyFrame": (pl.LazyFrame({"a": OK, "b": OK}), E, r"X is a polars LazyFrame. Pass X.collect\(\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_tables_are_refused(name):
    X, ensemble, message = WRONG[name]
    with pytest.raises(TableError, match=message):
        read_table(X, ensemble)


@pytest.mark.parametrize(
    ("X", "carry", "message"),
    [
        (np.zeros((1, 2)), ["id"], "carry names 'id', but X is an array"),
        (pd.DataFrame({"a": OK, "b": OK}), ["di"], "carry names 'di', which X does not have; it has 'a', 'b'"),
        (pd.DataFrame({"a": OK, "b": OK}), "a", "carry names 'a', which the model uses"),
    ],
)
def test_wrong_carry_is_refused(X, carry, message):
    with pytest.raises(GpucfError, match=message) as caught:
        read_table(X, make_ensemble(), carry=carry)
    assert isinstance(caught.value, TableError | OptionError)


def test_messages_use_the_name_and_the_row_of_the_caller():
    with pytest.raises(TableError, match=r"people.csv, column 'b', row 1001: inf"):
        read_table(np.array([OK, [1.0, np.inf]]), E, "people.csv", first_row=1000)


def test_long_lists_of_names_are_cut():
    with pytest.raises(TableError, match=r"'11', and 48 more, which the model does not know"):
        read_table(pd.DataFrame(np.zeros((1, 61))), make_ensemble(("60",)))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (dtype, value)
        for dtype in ["int8", "uint8", "int64", "uint64", "bool"]
        for value in [0.1, -1e30, 2.0**64, np.nan]
    ]
    + [("int64", 2.0**63), ("bool", 2.0), ("uint8", -1.0), ("float32", 0.1), ("float32", 1e300), ("float16", 1e5)],
)
def test_values_that_do_not_fit_are_our_fault(dtype, value):
    X = np.zeros((1, 2), dtype)
    table = read_table(X, E)
    with pytest.raises(VerificationError, match="fault of gpucf"):
        with_values(table, E, np.array([[value, 0.0]]), np.array([[True, False]]))


def test_largest_values_that_fit():
    for dtype, value in [
        ("int64", 2.0**63 - 1024),
        ("int64", -(2.0**63)),
        ("uint64", 2.0**64 - 2048),
        ("int8", -128.0),
    ]:
        X = np.zeros((1, 2), dtype)
        out = with_values(read_table(X, E), E, np.array([[value, 0.0]]), np.array([[True, False]]))
        assert int(out[0, 0]) == int(value)


def test_a_wrong_category_is_our_fault():
    X = pd.DataFrame({"a": OK, "b": ["x", "y"]})
    table = read_table(X, LETTERS)
    for position in [2.0, -1.0, 0.5]:
        with pytest.raises(VerificationError, match="not a category of column 'b'"):
            with_values(table, LETTERS, np.full((2, 2), position), np.array([[False, True], [False, False]]))
