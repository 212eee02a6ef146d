"""Tables: pandas data frames where pandas is installed, else plain columns."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from .errors import FormatError

_ROWS_SHOWN = 20


class Columns(dict[str, list[Any]]):
    """A table without pandas: its columns by their names, all of one length."""

    def _repr_html_(self) -> str:
        rows = list(zip(*self.values()))
        return html_table(list(self), rows)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a table without pandas has no {name}, but its columns as lists: `pip install pandas` makes it a DataFrame")

    def __repr__(self) -> str:
        rows = len(next(iter(self.values()), []))
        return f"<{rows} rows of {', '.join(self)}>"


def has_pandas() -> bool:
    return importlib.util.find_spec("pandas") is not None


def table(columns: Mapping[str, Any]) -> Any:
    """A pandas.DataFrame, or Columns where pandas is missing."""
    if has_pandas():
        import pandas

        return pandas.DataFrame(dict(columns))
    return Columns({name: list(values) for name, values in columns.items()})


def table_of_rows(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Likewise of a table's rows. A key that a row lacks is None, NaN in pandas."""
    rows = list(rows)
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return table({name: [row.get(name) for row in rows] for name in names})


def read_csv(path: Path) -> Any:
    """The table in a CSV file. Empty numbers are NaN, without pandas None."""
    if not path.is_file():
        raise FormatError(f"{path}: there is no such table")
    if has_pandas():
        import pandas

        return pandas.read_csv(path, keep_default_na=False, na_values=[""])
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    return Columns({name: _values([line[i] for line in lines[1:]]) for i, name in enumerate(lines[0])})


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} as {"a.b": 1}."""
    out: dict[str, Any] = {}
    for name, part in value.items():
        if isinstance(part, Mapping):
            out.update(flat(part, f"{prefix}{name}."))
        else:
            out[prefix + name] = part
    return out


def html_table(headings: Iterable[str], rows: list[Any], rows_shown: int = _ROWS_SHOWN) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(shown(cell))}</td>" for cell in row) + "</tr>" for row in rows[:rows_shown])
    more = f"<p>{len(rows) - rows_shown} more rows</p>" if len(rows) > rows_shown else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def shown(value: Any) -> str:
    """A cell: four digits behind the point of a real number, nothing for an unknown one."""
    if value is None or value != value:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _values(cells: list[str]) -> list[Any]:
    for kind in (int, float):
        try:
            return [kind(cell) if cell else None for cell in cells]
        except ValueError:
            continue
    return [cell or None for cell in cells]
