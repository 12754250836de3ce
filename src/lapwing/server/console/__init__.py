"""The pages of `lapwing serve`: for analysts, stewards and auditors."""

__all__: list[str] = []
