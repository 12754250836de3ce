"""Rows and aggregations, shared by SQL and Ibis: joins, unions, rows per unit, filters and groups."""

__all__: list[str] = []
