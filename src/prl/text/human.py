"""Durations and numbers as the console lines of a run print them (the run contract fixes their form)."""


def format_duration(seconds: float) -> str:
    """A duration as the contract's console lines print it: ``980ms``, ``3.1s``, ``1m 12s``, ``2h 5m``, ``1d 3h``.

    >>> [format_duration(s) for s in (0.98, 3.14, 72, 7500, 97200)]
    ['980ms', '3.1s', '1m 12s', '2h 5m', '1d 3h']
    """
    if seconds < 0.9995:
        return f"{max(seconds, 0.0) * 1000:.0f}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def format_percent(share: float) -> str:
    """A share in 0..1 as a percentage with one decimal: ``4.7%``."""
    return f"{100 * share:.1f}%"


def format_bytes(size: float) -> str:
    """A number of bytes in the largest binary unit of which it has one.

    >>> [format_bytes(n) for n in (17, 1536, 3 * 1024**3)]
    ['17 B', '1.5 KiB', '3.0 GiB']
    """
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"
