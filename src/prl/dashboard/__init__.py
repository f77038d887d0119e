"""The web face of recorded runs: an HTTP API over :mod:`prl.rundir` and :mod:`prl.watch`, and the pages that use it.

Everything a page shows comes from the API under ``/api/v1`` (:mod:`prl.dashboard.routes`, described by its own OpenAPI
document), which agents use as well. Run directories are only read. Left out: reading any format (that is
:mod:`prl.rundir`) and judging a run (:mod:`prl.watch`).
"""
