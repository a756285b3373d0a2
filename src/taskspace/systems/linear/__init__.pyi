# The names of the package; __init__.py loads them when they are first used.

from .base import LinearSystem as LinearSystem
from .control import control_family as control_family
from .control import controller_of as controller_of
from .controllers import Pi as Pi
from .controllers import Pid as Pid
from .family import LinearFamily as LinearFamily
from .family import RateForm as RateForm
from .family import points_family as points_family
from .family import rate_form as rate_form
from .kernels.lyapunov import LinearMatrices as LinearMatrices
from .msd import MassSpringDamper as MassSpringDamper
from .preiss import Quadrotor as Quadrotor
from .preiss import ScalarLqr as ScalarLqr
