"""The dashboard: `kinformer dashboard`, and its web application, which other applications can mount.

Tests: tests/cli/test_dashboard.py, tests/cli/test_dashboard_api.py, tests/cli/test_dashboard_browser.py.
"""

from __future__ import annotations

from kinformer._lazy import needs_extra

with needs_extra("dashboard", "fastapi", "starlette"):
    from kinformer.cli.dashboard.app import cluster_app, cluster_router
    from kinformer.cli.dashboard.guard import LOOPBACK_NAMES
    from kinformer.cli.dashboard.secrets import hide

__all__ = ["LOOPBACK_NAMES", "cluster_app", "cluster_router", "hide"]
