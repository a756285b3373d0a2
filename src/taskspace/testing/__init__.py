"""Checks of what users add: systems, trainers, policies, criteria and more.

`check_system` gives a list of `Check`; `assert_system` is the same for pytest:

```python
from taskspace.testing import assert_system

def test_my_system():
    assert_system(MySystem(), MyTrainer())
```

`check_criterion`, `check_method`, `check_selector`, `check_exporter`, `check_trainer`
and `check_policy` do the same for what they name. `checks` says what is checked of
systems, `liveness` finds dead context axes, `trials` makes what the checks need. It is
the room of `taskspace doctor`.
"""

from taskspace.testing.checks import (
    Check,
    assert_system,
    check_environment,
    check_system,
)
from taskspace.testing.criteria import assert_criterion, check_criterion
from taskspace.testing.exporters import assert_exporter, check_exporter
from taskspace.testing.liveness import (
    dead_axes,
    environment_outcomes,
    never_alive,
    system_outcomes,
)
from taskspace.testing.methods import assert_method, check_method
from taskspace.testing.selectors import assert_selector, check_selector
from taskspace.testing.trainers import (
    assert_policy,
    assert_trainer,
    check_policy,
    check_trainer,
)
from taskspace.testing.trials import random_policies

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
    "never_alive",
    "random_policies",
    "system_outcomes",
]
