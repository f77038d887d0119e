"""A module that is not an environment: it exports no taskset."""

__all__: list[str] = []
