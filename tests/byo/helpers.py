"""The command line in this process."""

from tests.test_cli import refused, taskspace

__all__ = ["refused", "taskspace"]
