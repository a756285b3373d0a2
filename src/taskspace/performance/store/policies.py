"""Trained policies as bytes: an npz of plain arrays, in which nothing is pickled."""

import io
import zipfile
import zlib
from typing import Any

import msgspec
import numpy as np

from taskspace.errors import DamagedFileError, TaskspaceError
from taskspace.performance.io.limits import read_arrays
from taskspace.performance.work import TrainedBlock
from taskspace.policies import POLICY_KINDS, Policy
from taskspace.trainers.base import Trained

UNREADABLE = (
    OSError, AttributeError, LookupError, TypeError, ValueError, EOFError, MemoryError,
    RecursionError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a zip file of arrays may raise if it is not what was written."""


class PolicyFacts(msgspec.Struct, frozen=True):
    """What policies are beside their arrays.

    Args:
        kind: name of the kind, of `POLICY_KINDS`.
        settings: what is not an array.
    """

    kind: str
    settings: dict[str, Any]

    def policies(self, arrays: dict[str, Any]) -> Policy:
        """Return the policies that these arrays are of.

        Args:
            arrays: by name.
        """
        settings = {
            key: float(value) if value in ("inf", "-inf", "Infinity") else value
            for key, value in self.settings.items()
        }
        return POLICY_KINDS[self.kind].from_arrays(arrays, settings)


def pack_policies(block: TrainedBlock) -> bytes:
    """Return the bytes of an npz file; equal arrays give equal bytes.

    Args:
        block: policies, counts and scores at home.
    """
    policies = block.trained.policies
    settings = {
        key: str(value) if value in (np.inf, -np.inf) else value
        for key, value in policies.settings().items()
    }
    header = msgspec.json.encode(PolicyFacts(policies.kind, settings)).decode()
    arrays = {f"policy_{k}": v for k, v in policies.arrays().items()}
    arrays |= {f"log_{k}": v for k, v in block.trained.log.items()}
    file = io.BytesIO()
    np.savez(
        file,
        allow_pickle=False,
        header=np.array(header),
        home=np.asarray(block.home, order="C"),
        environment_steps=block.trained.environment_steps,
        # In one order, so that equal arrays are equal bytes.
        **{name: np.asarray(values, order="C") for name, values in arrays.items()},
    )
    return file.getvalue()


def unpack_policies(data: bytes, shape: tuple[int, int]) -> TrainedBlock:
    """Return what `pack_policies` packed.

    Args:
        data: the bytes of the file.
        shape: sources and policies per source.
    """
    groups: dict[str, dict[str, Any]] = {"policy": {}, "log": {}}
    try:
        arrays = read_arrays(io.BytesIO(data), "it")
        text = str(arrays.pop("header")).replace("Infinity", '"inf"')
        facts = msgspec.json.decode(text.replace('-"inf"', '"-inf"'), type=PolicyFacts)
        home, steps = arrays.pop("home"), arrays.pop("environment_steps")
        for name, array in arrays.items():
            group, _, rest = name.partition("_")
            groups[group][rest] = array
        policies = facts.policies(groups["policy"])
        for array in (home, steps, *groups["policy"].values(), *groups["log"].values()):
            if array.shape[:2] != shape or array.dtype.kind not in "fiub":
                raise ValueError("its arrays are not of the sources it should have")
    except (*UNREADABLE, TaskspaceError) as error:
        raise DamagedFileError(str(error)) from error
    return TrainedBlock(Trained(policies, steps, groups["log"]), home)
