"""Checks of what users add: systems, trainers, policies, criteria and more.

`check_system` gives a list of `Check`, which `taskspace doctor` prints; `assert_system`
is the same for pytest:

```python
from taskspace.testing import assert_system

def test_my_system():
    assert_system(MySystem(), MyTrainer())
```

`check_criterion`, `check_method`, `check_selector`, `check_exporter`, `check_trainer`
and `check_policy` do the same for what they name.
"""

from taskspace.testing.checks import Check
from taskspace.testing.criteria import assert_criterion, check_criterion
from taskspace.testing.exporters import assert_exporter, check_exporter
from taskspace.testing.methods import assert_method, check_method
from taskspace.testing.selectors import assert_selector, check_selector
from taskspace.testing.systems import (
    assert_system,
    check_environment,
    check_system,
    dead_axes,
    environment_outcomes,
    random_policies,
    system_outcomes,
)
from taskspace.testing.trainers import (
    assert_policy,
    assert_trainer,
    check_policy,
    check_trainer,
)

__all__ = [
    "Check",
    "assert_criterion",
    "assert_exporter",
    "assert_method",
    "assert_policy",
    "assert_selector",
    "assert_system",
    "assert_trainer",
    "check_criterion",
    "check_environment",
    "check_exporter",
    "check_method",
    "check_policy",
    "check_selector",
    "check_system",
    "check_trainer",
    "dead_axes",
    "environment_outcomes",
    "random_policies",
    "system_outcomes",
]
