"""How tests are shared between processes: what shares an expensive fixture runs in one."""

import pytest


def test_tests_of_one_module_run_in_one_process(request: pytest.FixtureRequest) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("tests run in one process, or are not grouped")
    assert request.node.nodeid.endswith("@test_groups ")  # as pytest-xdist names a group that it keeps together
