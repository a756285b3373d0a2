# The names of the package; __init__.py loads them when they are first used.

import taskspace._util.lazy

from . import acrobot as acrobot
from . import baselines as baselines
from . import cartpole as cartpole
from . import delayed as delayed
from . import environment as environment
from . import episodic as episodic
from . import function as function
from . import gymnasium as gymnasium
from . import lander as lander
from . import linear as linear
from . import mountain_car as mountain_car
from . import pendulum as pendulum
from . import planar_quadrotor as planar_quadrotor
from . import simulated as simulated
from . import swingup as swingup
from . import tabular as tabular
from .acrobot import Acrobot as Acrobot
from .base import ContextAxis as ContextAxis
from .base import System as System
from .baselines import Baselines as Baselines
from .baselines import baseline_performance as baseline_performance
from .cartpole import CartPole as CartPole
from .delayed import DelayedCartPole as DelayedCartPole
from .episodic import EpisodicSystem as EpisodicSystem
from .episodic import fresh_episodes as fresh_episodes
from .function import FunctionSystem as FunctionSystem
from .function import PythonPolicies as PythonPolicies
from .gymnasium import GymnasiumSystem as GymnasiumSystem
from .gymnasium import gymnasium_system as gymnasium_system
from .lander import Lander as Lander
from .linear.base import LinearSystem as LinearSystem
from .linear.control import control_family as control_family
from .linear.control import controller_of as controller_of
from .linear.controllers import Pi as Pi
from .linear.controllers import Pid as Pid
from .linear.family import LinearFamily as LinearFamily
from .linear.matrices import LinearMatrices as LinearMatrices
from .linear.msd import MassSpringDamper as MassSpringDamper
from .linear.points import points_family as points_family
from .linear.preiss import Quadrotor as Quadrotor
from .linear.preiss import ScalarLqr as ScalarLqr
from .linear.rates import RateForm as RateForm
from .linear.rates import rate_form as rate_form
from .mountain_car import MountainCar as MountainCar
from .objective import Objective as Objective
from .pendulum import Pendulum as Pendulum
from .planar_quadrotor import PlanarQuadrotor as PlanarQuadrotor
from .simulated import SimulatedSystem as SimulatedSystem
from .swingup import SwingUp as SwingUp
from .tabular import DirectionalityToy as DirectionalityToy
from .tabular import TabularFamily as TabularFamily
from .tabular import UnreachableState as UnreachableState

SYSTEMS: taskspace._util.lazy.Registry[type[System]]
