"""ONNX: one policy, or the whole library with the selection in the graph.

The graph of a library takes a batch of contexts (double) and observations, and gives
the actions, the number of the policy and the status of every row; comparisons are in
double, so the selection is Python's. It needs the extra `export`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace.deploy.base import (
    PolicyLibrary,
    Status,
    check_actions,
    require_coordinates,
)
from taskspace.deploy.files import contract_bytes, write_new
from taskspace.deploy.regions import BoxRegions, GridRegions
from taskspace.errors import InvalidInputError, MissingExtraError
from taskspace.export.base import exporter, memoryless, require_kind
from taskspace.policies import LinearGain, Mlp, Policy, TabularPolicy

OPSET = 17
IR_VERSION = 8
"""Of the year 2022, so that older runtimes read it too."""


@exporter("onnx")
def export_onnx(
    library: PolicyLibrary, folder: str | Path, *, command: str | None = None
) -> Path:
    """Write `library.onnx`, one `policy_I.onnx` a policy, and the contract.

    Args:
        library: the library; without policies only the selection is written.
        folder: a folder that does not exist or is empty.
        command: what was typed to make it, kept in the contract.

    Returns:
        The folder.
    """
    require_kind(library, PolicyLibrary)
    library = memoryless(library, "An ONNX graph")
    files = {"library.onnx": library_model(library).SerializeToString()}
    if library.policies is not None:
        for i in range(library.size):
            model = policy_model(library.policies[i])
            files[f"policy_{i}.onnx"] = model.SerializeToString()
    notes = [
        "Inputs context (batch, axis; double) and observation (batch, …); outputs "
        "action, policy, status. A refused context gives the action NaN, or −1 where "
        "actions are numbers of a list.",
    ]
    arithmetic = "float" if isinstance(library.policies, Mlp) else "double"
    files["contract.json"] = contract_bytes(library, command, arithmetic, notes)
    return write_new(folder, files)


def policy_model(policy: Policy) -> Any:
    """Return the ONNX model of one policy: `observation` (batch, …) to `action`.

    Args:
        policy: a single policy, no leading dims.
    """
    graph = _Graph("policy")
    seen, acted = _signals(policy)
    observation = graph.input("observation", *seen)
    graph.output(_act(graph, policy, observation, None), "action", *acted)
    return graph.model()


def library_model(library: PolicyLibrary) -> Any:
    """Return the ONNX model of a library: `context`, `observation` to `action`.

    Args:
        library: the library.
    """
    require_coordinates(library, "An ONNX graph selects by contexts with coordinates")
    check_actions(library)
    graph = _Graph("library")
    d = len(library.names)
    graph.input("context", "float64", ["batch", d])
    policy, status = _select(graph, library)
    if library.policies is not None:
        stack = library.policies
        seen, acted = _signals(stack)
        observation = graph.input("observation", *seen)
        number = graph("Max", policy, graph.zero)
        action = _act(graph, stack, observation, number)
        refused = graph("Equal", policy, graph.constant(np.int64(-1)))
        for _ in acted.shape[1:]:
            refused = graph("Unsqueeze", refused, graph.constant(np.array([-1])))
        # No action: not a number, or −1 among actions by number.
        nothing = np.array(-1 if acted.kind == "int64" else np.nan, acted.kind)
        action = graph("Where", refused, graph.constant(nothing), action)
        graph.output(action, "action", *acted)
    graph.output(policy, "policy", "int64", ["batch"])
    graph.output(status, "status", "int64", ["batch"])
    return graph.model()


# --- selection --------------------------------------------------------------------


def _select(graph: "_Graph", library: PolicyLibrary) -> tuple[str, str]:
    """Policy and status; what no context can change is no node of the graph."""
    regions = library.regions
    low, high = graph.constant(library.low), graph.constant(library.high)
    first, last = (graph.constant(end) for end in library.measured_range)
    above = graph("GreaterOrEqual", "context", first)
    inside = graph.all(graph("And", above, graph("LessOrEqual", "context", last)))
    # What is not a number stays so: it finds some region, and is refused below.
    safe = graph("Min", graph("Max", "context", low), high)
    if isinstance(regions, GridRegions):
        region, node = _grid(graph, regions, safe)
    else:
        assert isinstance(regions, BoxRegions)
        region, node = _boxes(graph, regions, safe), None
        if regions.nodes is not None:
            node = graph("Gather", graph.constant(regions.nodes), region)
    policy = graph("Gather", graph.constant(regions.policy), region)
    status = graph(
        "Where", inside, graph.status(Status.INSIDE), graph.status(Status.OUTSIDE)
    )
    statuses = library.statuses()
    says_more = (statuses != Status.INSIDE) & (statuses != Status.REFUSED)
    if says_more.any():
        is_known = inside
        if node is not None:
            # Equal is not defined for double everywhere: neither above nor below.
            apart = graph("Or", graph("Less", safe, node), graph("Greater", safe, node))
            is_known = graph("And", is_known, graph.all(graph("Not", apart)))
        if (statuses == statuses[0]).all():
            here = graph.constant(statuses[0])
        else:
            here = graph("Gather", graph.constant(statuses), region)
        status = graph("Where", is_known, here, status)
    fine = inside
    if library.outside != "refuse":  # inside of finite ends is finite
        bound = graph.constant(np.array(np.finfo(np.float64).max))
        fine = graph.all(graph("LessOrEqual", graph("Abs", "context"), bound))
    if (regions.policy < 0).any():
        fine = graph("And", fine, graph("Not", graph("Less", policy, graph.zero)))
    status = graph("Where", fine, status, graph.status(Status.REFUSED))
    return graph("Where", fine, policy, graph.constant(np.int64(-1))), status


def _grid(graph: "_Graph", regions: GridRegions, rows: str) -> tuple[str, str]:
    """Return the number of the nearest node, and its coordinates."""
    d = len(regions.values)
    # One row of borders per axis, filled up with borders that no value is above.
    width = max(1, *(len(borders) for borders in regions.borders))
    edges = np.full((1, d, width), np.inf)
    for i, borders in enumerate(regions.borders):
        edges[0, i, : len(borders)] = borders
    wide = graph("Unsqueeze", rows, graph.constant(np.array([-1])))
    above = graph("Greater", wide, graph.constant(edges))
    places = graph.sum(graph("Cast", above, to="int64"))
    sizes = [len(values) for values in regions.values]
    strides = np.array([np.prod(sizes[i + 1 :]) for i in range(d)], np.int64)
    region = graph.sum(graph("Mul", places, graph.constant(strides)))
    # All coordinates in one list, those of an axis from its own place on.
    firsts = np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.int64)
    place = graph("Add", places, graph.constant(firsts))
    return region, graph(
        "Gather", graph.constant(np.concatenate(regions.values)), place
    )


def _boxes(graph: "_Graph", regions: BoxRegions, rows: str) -> str:
    """Return the box with `low < x <= high`; the lowest include their lower face."""
    rim = regions.box_low == regions.low
    low = np.where(rim, -np.inf, regions.box_low)
    wide = graph("Unsqueeze", rows, graph.constant(np.array([1])))
    above = graph("Greater", wide, graph.constant(low[None]))
    below = graph("LessOrEqual", wide, graph.constant(regions.box_high[None]))
    number = graph("Cast", graph("And", above, below), to="int32")
    holds = graph("ReduceMin", number, axes=[-1], keepdims=0)
    return graph("ArgMax", holds, axis=-1, keepdims=0)


# --- policies ---------------------------------------------------------------------


class _Signal(NamedTuple):
    """Type and shape of observations or actions."""

    kind: str
    shape: Sequence[str | int]


def _signals(policy: Policy) -> tuple[_Signal, _Signal]:
    """Return what the observations and the actions of a policy are."""
    number = _Signal("int64", ["batch"])
    if isinstance(policy, LinearGain):
        n_actions, n_seen = policy.gain.shape[-2:]
        seen, action = ["batch", n_seen], ["batch", n_actions]
        return _Signal("float64", seen), _Signal("float64", action)
    if isinstance(policy, Mlp):
        seen = _Signal("float32", ["batch", policy.weights[0].shape[-2]])
        action = ["batch", policy.biases[-1].shape[-1]]
        return seen, number if policy.head == "argmax" else _Signal("float32", action)
    if isinstance(policy, TabularPolicy):
        return number, number
    raise InvalidInputError(
        "ONNX can be written for policies of kind linear-gain, mlp and tabular, but "
        f"these are of kind {policy.kind!r}."
    )


def _act(graph: "_Graph", policy: Policy, seen: str, number: str | None) -> str:
    """Return the action of a policy, or of the numbered policies of a stack."""

    def pick(array: NDArray[Any]) -> str:
        if number is None:
            return graph.constant(array[None])
        return graph("Gather", graph.constant(array), number)

    if isinstance(policy, LinearGain):
        column = graph("Unsqueeze", seen, graph.constant(np.array([-1])))
        product = graph("MatMul", pick(-policy.gain), column)
        return graph("Squeeze", product, graph.constant(np.array([-1])))
    if isinstance(policy, TabularPolicy):
        best = policy.probabilities.argmax(-1)
        n_states = best.shape[-1]
        if number is None:
            return graph("Gather", graph.constant(best), seen)
        first = graph("Mul", number, graph.constant(np.int64(n_states)))
        place = graph("Add", first, seen)
        return graph("Gather", graph.constant(best.reshape(-1)), place)
    assert isinstance(policy, Mlp)
    one = graph.constant(np.array([1]))
    x = graph("Unsqueeze", seen, one)
    for i, (weight, bias) in enumerate(zip(policy.weights, policy.biases, strict=True)):
        product = graph("MatMul", x, pick(weight.astype(np.float32)))
        x = graph("Add", product, pick(bias.astype(np.float32)[..., None, :]))
        if i < len(policy.weights) - 1:
            x = graph("Tanh" if policy.activation == "tanh" else "Relu", x)
    x = graph("Squeeze", x, one)
    if policy.head == "argmax":
        return graph("ArgMax", x, axis=-1, keepdims=0)
    low, high = np.float32(policy.action_low), np.float32(policy.action_high)
    if policy.head == "squash":
        unit = graph("Add", graph("Tanh", x), graph.constant(np.float32(1)))
        half = graph("Mul", unit, graph.constant(np.float32((high - low) / 2)))
        return graph("Add", half, graph.constant(low))
    for bound, operator in ((low, "Max"), (high, "Min")):
        if np.isfinite(bound):
            x = graph(operator, x, graph.constant(bound))
    return x


# --- graphs -----------------------------------------------------------------------


class _Graph:
    """Nodes and constants as they are added, each with a name of its own."""

    def __init__(self, name: str):
        try:
            import onnx
        except ImportError as error:
            raise MissingExtraError("The ONNX export", "export") from error
        self.onnx, self.name = onnx, name
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.names: dict[str, str] = {}
        self.zero = self.constant(np.int64(0))

    def _type(self, name: str) -> int:
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(name))

    def input(self, name: str, kind: str, shape: Sequence[str | int]) -> str:
        make = self.onnx.helper.make_tensor_value_info
        self.inputs.append(make(name, self._type(kind), list(shape)))
        return name

    def output(self, value: str, name: str, kind: str, shape: Sequence[str | int]):
        self.names[value] = name
        make = self.onnx.helper.make_tensor_value_info
        self.outputs.append(make(name, self._type(kind), list(shape)))

    def constant(self, array: Any) -> str:
        name = f"constant_{len(self.constants)}"
        values = np.ascontiguousarray(array).reshape(np.shape(array))
        self.constants.append(self.onnx.numpy_helper.from_array(values, name))
        return name

    def status(self, status: Status) -> str:
        return self.constant(np.int64(status))

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        if "to" in attributes:
            attributes["to"] = self._type(attributes["to"])
        name = f"value_{len(self.nodes)}"
        node = self.onnx.helper.make_node(operator, list(inputs), [name], **attributes)
        self.nodes.append(node)
        return name

    def sum(self, value: str) -> str:
        """Sum over the last dim."""
        last = self.constant(np.array([-1]))
        return self("ReduceSum", value, last, keepdims=0)

    def all(self, value: str) -> str:
        """Whether all of the last dim hold."""
        number = self("Cast", value, to="int32")
        least = self("ReduceMin", number, axes=[-1], keepdims=0)
        return self("Greater", least, self.constant(np.int32(0)))

    def model(self) -> Any:
        helper = self.onnx.helper
        for node in self.nodes:
            for ends in (node.input, node.output):
                for k, end in enumerate(ends):
                    ends[k] = self.names.get(end, end)
        graph = helper.make_graph(
            self.nodes, self.name, self.inputs, self.outputs, self.constants
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name="taskspace",
        )
        model.ir_version = IR_VERSION
        self.onnx.checker.check_model(model, full_check=True)
        return model
