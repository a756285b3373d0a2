"""Checks of what users add: one function per kind, which asserts what must hold.

```python
from taskspace.testing import check_system

def test_my_system():
    check_system(MySystem(), MyTrainer())
```

An `AssertionError` begins with the name of the promise that is broken. Our own systems,
trainers, policies, criteria, methods, selectors and exporters pass the same checks.
"""

from taskspace.testing.covers import check_criterion, check_method, check_selector
from taskspace.testing.exporters import check_exporter
from taskspace.testing.systems import (
    Check,
    check_policy,
    check_system,
    check_trainer,
    dead_axes,
    environment_outcomes,
    system_checks,
)

__all__ = [
    "Check",
    "check_criterion",
    "check_exporter",
    "check_method",
    "check_policy",
    "check_selector",
    "check_system",
    "check_trainer",
    "dead_axes",
    "environment_outcomes",
    "system_checks",
]
