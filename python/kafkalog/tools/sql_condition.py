"""A condition in SQL over the columns of records, which DuckDB evaluates."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

# A condition is often pasted from elsewhere: it reads no file, no variable of Python and no network, loads nothing, and
# cannot change that.
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
# DuckDB's parser takes minutes for some thousand open parentheses.
_LONGEST, _DEEPEST, _SHOWN = 10_000, 200, 200
# A word of SQL, which needs quotes as a column.
_BARE_OFFSET = re.compile(r'(?<!")\boffset\b(?!")', re.IGNORECASE)


class SqlCondition:
    """One boolean expression over the columns of records."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        try:
            import duckdb
        except ImportError:
            raise ValueError("drop as SQL needs DuckDB; install it, or give an expression of pyarrow.compute") from None
        self._text = text
        self._errors = duckdb.Error
        self._connection = duckdb.connect(":memory:", config=_CLOSED)
        self._connection.execute("SET lock_configuration = true")
        self._check_expression()
        kinds = [row[1] for row in self._ask("DESCRIBE SELECT ({}\n) FROM records", schema.empty_table())]
        if kinds != ["BOOLEAN"]:
            raise self._refused(f"expected a boolean, found {', '.join(kinds)}")
        # A WHERE clause has rules of its own: no aggregates, no window functions.
        self.matches(schema.empty_table())

    def matches(self, records: pa.Table) -> list[int]:
        """Return the offsets of the records for which the condition is true."""
        return [offset for (offset,) in self._ask('SELECT "offset" FROM records WHERE ({}\n)', records)]

    def _check_expression(self) -> None:
        if len(self._text) > _LONGEST or self._text.count("(") > _DEEPEST:
            raise ValueError(f"drop: expected at most {_LONGEST} characters and {_DEEPEST} parentheses")
        # What parses both alone and in parentheses closes none of them. A comment ends at the line.
        for query in ("SELECT {}\n", "SELECT ({}\n)"):
            ((tree,),) = self._fetched("SELECT json_serialize_sql(?::VARCHAR)", [query.format(self._text)])
            parsed = json.loads(tree)
            if parsed["error"]:
                hint = '; write the column offset as "offset"' if _BARE_OFFSET.search(self._text) else ""
                raise self._refused(f"expected one expression, found: {parsed['error_message']}{hint}")
            nodes = [statement["node"] for statement in parsed["statements"]]
            if len(nodes) != 1 or len(nodes[0].get("select_list", ())) != 1:
                raise self._refused("expected one expression, found several")
            # A quote in the text of the condition is escaped.
            if '"class":"SUBQUERY"' in tree:
                raise self._refused("expected an expression over the columns, found a subquery")

    def _ask(self, query: str, records: pa.Table) -> list[tuple[Any, ...]]:
        self._connection.register("records", records)
        return self._fetched(query.format(self._text))

    def _fetched(self, query: str, values: list[str] | None = None) -> list[tuple[Any, ...]]:
        try:
            # All rows: DuckDB refuses the next query while some are left.
            return self._connection.execute(query, values or []).fetchall()
        except self._errors as error:
            # The place is drawn below.
            raise self._refused(str(error).partition("\n")[0]) from None

    def _refused(self, reason: object) -> ValueError:
        shown = self._text if len(self._text) <= _SHOWN else f"{self._text[:_SHOWN]}..."
        return ValueError(f"drop {shown!r}: {reason}")
