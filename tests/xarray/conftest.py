"""The markers that the tests of xarray's wheel need."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    for name in ("asyncio", "flaky", "network", "skip_if_param", "skip_with_dask_array", "slow"):
        config.addinivalue_line("markers", f"{name}: of xarray's tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that xarray marks as skipped for one value of a parameter, as xarray's own plug-in does."""
    for item in items:
        params = getattr(item, "callspec", None) and item.callspec.params
        for mark in item.iter_markers("skip_if_param"):
            options = dict(mark.kwargs)
            reason, condition = options.pop("reason"), options.pop("condition", True)
            if condition and any((params or {}).get(name) == value for name, value in options.items()):
                item.add_marker(pytest.mark.skip(reason=reason))
