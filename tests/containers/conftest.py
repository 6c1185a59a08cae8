"""Fixtures of the tests that run containers: images built once, and a stack that is gone after each test."""

from collections.abc import Iterator

import pytest

from tests.containers.base_image import ensure_base_image
from tests.containers.pip_settings import PipSettings
from tests.containers.stack import Stack
from tests.containers.tools import complaint, podman_environment


@pytest.fixture(scope="session")
def built_stack(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """The stack, built and not yet started."""
    if (reason := complaint()) is not None:
        pytest.exit(reason, returncode=1)
    folder = tmp_path_factory.mktemp("containers")
    environment = podman_environment(folder)
    ensure_base_image(folder, environment)
    stack = Stack(environment)
    stack.build(PipSettings.of_this_machine().volumes(folder))
    return stack


@pytest.fixture
def stack(built_stack: Stack) -> Iterator[Stack]:
    """The stack, healthy; what the services wrote is shown where a test fails."""
    built_stack.down()
    try:
        built_stack.up()
        yield built_stack
    finally:
        print(built_stack.logs())
        built_stack.down()
