# The names of the package; __init__.py loads them when they are first used.

import taskspace._util.lazy

from .base import Region as Region
from .base import RegionTrainer as RegionTrainer
from .base import Trained as Trained
from .base import Trainer as Trainer
from .base import context_seed as context_seed
from .lqr import Lqr as Lqr
from .ppo import Ppo as Ppo
from .sb3 import Sb3 as Sb3
from .structured import Structured as Structured

TRAINERS: taskspace._util.lazy.Registry[type[Trainer]]
