"""Frames of pandas, polars and Arrow, lazy ones too, as Arrow tables. Types follow column types, never values.

Integers are integers, floats are real however whole they are, booleans are booleans and objects are text. A missing
value turns numpy integers into floats and booleans into objects; so the types of the first frame are recorded, and
later ones are cast to them (curator/declared_table.py). Each object is converted by itself: NULL if it has no text.
Checked by: tests/engines/test_frames.py
"""

from __future__ import annotations

import sys
from contextlib import suppress
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from lapwing.engines.source import Frame, check_names
from lapwing.errors import Misconfigured

_ROWS_AT_A_TIME = 1 << 16


def frame_source(data: Any) -> Frame:
    """The source for a pandas, polars or Arrow frame; what is lazy is read now."""
    data = _collected(data)
    if _is_pandas(data):
        table, numbers = _from_pandas(data), _numbers(data)
    elif hasattr(data, "to_frame"):
        raise Misconfigured("the data are a single column. Pass a frame: data.to_frame().")
    elif isinstance(data, pa.Table | pa.RecordBatch) or hasattr(data, "__arrow_c_stream__"):
        table, numbers = _from_arrow(data), frozenset()
    else:
        raise Misconfigured("the data have an unknown type. Pass a path, or a pandas, polars or Arrow frame.")
    if not table.num_columns:
        raise Misconfigured("the frame has no columns. Pass a frame with columns.")
    check_names(table.schema.names)
    table = _with_engine_types(table)
    return Frame(table, numbers, is_pandas=_is_pandas(data), mark=digest_of_rows(table))


def digest_of_rows(table: pa.Table) -> bytes:
    """A fingerprint of the content, independent of its chunks."""
    digest = sha256()
    with pa.ipc.new_stream(pa.PythonFile(_Sink(digest), mode="w"), table.schema) as stream:
        for start in range(0, table.num_rows, _ROWS_AT_A_TIME):
            stream.write_table(table.slice(start, _ROWS_AT_A_TIME).combine_chunks())
    return digest.digest()


class _Sink:
    """A file that hashes what is written to it."""

    closed = False

    def __init__(self, digest: Any) -> None:
        self.digest = digest

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)

    def flush(self) -> None:
        """Does nothing: there is no buffer."""


def _is_pandas(data: Any) -> bool:
    """True for a pandas frame or a subclass. pandas is not imported for this."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def _collected(data: Any) -> Any:
    """The rows of a lazy frame of polars or a dataset of Arrow; anything else unchanged."""
    home, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if (home, kind) != ("polars", "LazyFrame") and (home, hasattr(data, "to_table")) != ("pyarrow", True):
        return data
    with suppress(Exception):  # from any library; the message may quote a value
        return data.collect(engine="streaming") if home == "polars" else data.to_table()
    raise Misconfigured("the data cannot be read. data.collect(), or data.to_table() of a dataset, shows why.")


def _from_arrow(data: Any) -> pa.Table:
    with suppress(Exception):  # from any library; the message may quote a value
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        return data if isinstance(data, pa.Table) else pa.table(data)
    raise Misconfigured("the frame cannot be read. Convert each column to a single plain type first.")


def _from_pandas(data: Any) -> pa.Table:
    if data.columns.nlevels > 1 or not all(isinstance(name, str | int | np.integer) for name in data.columns):
        raise Misconfigured("a column name of the frame is not text. Rename the columns.")
    names = [str(name) for name in data.columns]
    check_names(names)
    return pa.table([_column(data.iloc[:, i], name) for i, name in enumerate(names)], names=names)


def _numbers(data: Any) -> frozenset[str]:
    """Columns of numpy numbers, or of categories of those; other types do not change with a missing value."""
    kinds = ((str(name), _value_type(kind)) for name, kind in data.dtypes.items())
    return frozenset(name for name, kind in kinds if isinstance(kind, np.dtype) and kind.kind in "iuf")


def _value_type(kind: Any) -> Any:
    return kind.categories.dtype if type(kind).__name__ == "CategoricalDtype" else kind


def _column(column: Any, name: str) -> Any:
    kind = column.dtype
    if type(kind).__name__ == "SparseDtype":
        raise Misconfigured(f"`{name}` is sparse. Convert it with `.sparse.to_dense()` first.")
    with suppress(Exception):  # from any library; the message may quote a value
        if isinstance(kind, np.dtype) and kind.kind == "O":
            return _texts(column.to_numpy())
        if type(kind).__name__ == "CategoricalDtype":
            return _categories(column, name)
        values = pa.array(column, from_pandas=True)
        if not isinstance(values.type, pa.BaseExtensionType):
            return values
    raise Misconfigured(f"`{name}` has the unsupported type {kind}. Convert the column or drop it.")


def _categories(column: Any, name: str) -> Any:
    """The categories as a column, and from it one value per row."""
    codes = column.cat.codes.to_numpy()
    categories = _column(column.cat.categories.to_series(), name)
    return categories.take(pa.array(codes, mask=codes < 0))


def _texts(values: Any) -> pa.Array:
    """Objects as text. Those of one common type are converted at once, with the same result as one by one."""
    from pandas.api.types import infer_dtype

    kind = infer_dtype(values, skipna=True)
    if kind == "boolean":
        import pyarrow.compute as pc

        return pc.if_else(pa.array(values, pa.bool_(), from_pandas=True), "True", "False")
    with suppress(UnicodeError):
        if kind == "string":
            return pa.array(values, pa.string(), from_pandas=True)
    texts = [None if missing else _text(value) for value, missing in zip(values, _missing(values), strict=True)]
    return pa.array(texts, pa.string())


def _missing(values: Any) -> Any:
    """Which objects are missing. A value that cannot even be compared is missing too."""
    from pandas import isna

    with suppress(Exception):
        return isna(values)
    return [_is_missing(value) for value in values]


def _is_missing(value: Any) -> bool:
    from pandas import isna

    with suppress(Exception):
        return isna(value) is True
    return True


def _text(value: Any) -> str | None:
    """The text of one object, or None if it cannot be stored."""
    with suppress(Exception):  # an error in its own code affects this value only
        text = str.__str__(value) if isinstance(value, str) else str(value)
        text.encode()
        return text
    return None


_MICROSECONDS = {"s": 10**6, "ms": 10**3}


def _within_reach(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times with a zone that do not fit into microseconds become NULL: the engine fails on them as it reads them."""
    kind = column.type
    if not pa.types.is_timestamp(kind) or kind.tz is None or kind.unit not in _MICROSECONDS:
        return column
    import pyarrow.compute as pc

    most = (2**63 - 1) // _MICROSECONDS[kind.unit]
    numbers = column.cast(pa.int64())
    fits = pc.and_(pc.less_equal(numbers, most), pc.greater_equal(numbers, -most))
    return pc.if_else(fits, column, pa.scalar(None, kind))


def _with_engine_types(table: pa.Table) -> pa.Table:
    """The table with types the engine supports: the NULL type becomes text."""
    table = pa.table([_within_reach(column) for column in table.columns], schema=table.schema)
    kinds = ((f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in table.schema)
    return table.cast(pa.schema([(name, pa.float32() if kind == pa.float16() else kind) for name, kind in kinds]))
