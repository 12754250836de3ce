"""Rows and groups as SQL and Ibis build them: joins, unions, per unit, filtered and grouped."""

__all__: list[str] = []
