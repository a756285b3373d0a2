# The names of the package; __init__.py loads them when they are first used.

import taskspace._util.lazy

from . import cartpole as cartpole
from . import episodic as episodic
from . import function as function
from . import gymnasium as gymnasium
from . import linear as linear
from . import pendulum as pendulum
from . import simulated as simulated
from . import tabular as tabular
from .base import ContextAxis as ContextAxis
from .base import Objective as Objective
from .base import System as System
from .cartpole import CartPole as CartPole
from .episodic import EpisodicSystem as EpisodicSystem
from .episodic import fresh_episodes as fresh_episodes
from .episodic import zero_performance as zero_performance
from .function import FunctionSystem as FunctionSystem
from .function import PythonPolicies as PythonPolicies
from .gymnasium import GymnasiumSystem as GymnasiumSystem
from .gymnasium import gymnasium_system as gymnasium_system
from .linear.base import LinearSystem as LinearSystem
from .linear.control import control_family as control_family
from .linear.control import controller_of as controller_of
from .linear.controllers import Pi as Pi
from .linear.controllers import Pid as Pid
from .linear.family import LinearFamily as LinearFamily
from .linear.family import RateForm as RateForm
from .linear.family import points_family as points_family
from .linear.family import rate_form as rate_form
from .linear.kernels.lyapunov import LinearMatrices as LinearMatrices
from .linear.msd import MassSpringDamper as MassSpringDamper
from .linear.preiss import Quadrotor as Quadrotor
from .linear.preiss import ScalarLqr as ScalarLqr
from .pendulum import Pendulum as Pendulum
from .simulated import SimulatedSystem as SimulatedSystem
from .tabular import TabularFamily as TabularFamily

SYSTEMS: taskspace._util.lazy.Registry[type[System]]
