"""ONNX: the whole library, with the selection in the graph.

The graph takes a batch of contexts (double) and observations, and gives
the actions, the number of the policy and the status of every row; comparisons are in
double, so the selection is Python's. It needs the extra `export`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.deploy.base import Status
from taskspace.deploy.files import json_bytes, write_new
from taskspace.deploy.policies import PolicyLibrary
from taskspace.deploy.regions import BoxRegions, GridRegions
from taskspace.errors import MissingExtraError
from taskspace.export.base import exporter, memoryless, require_kind
from taskspace.policies import LinearGain, Mlp, Policy

OPSET = 17
IR_VERSION = 8
"""Of the year 2022, so that older runtimes read it too."""


@exporter("onnx")
def export_onnx(
    library: PolicyLibrary, folder: str | Path, *, command: str | None = None
) -> Path:
    """Write `library.onnx` and the contract.

    Args:
        library: the library; without policies only the selection is written.
        folder: a folder that does not exist or is empty.
        command: what was typed to make it, kept in the contract.

    Returns:
        The folder.
    """
    require_kind(library, PolicyLibrary)
    model = library_model(library).SerializeToString()
    notes = [
        "Inputs context (batch, axis; double) and observation (batch, …); outputs "
        "action, policy, status. A refused context gives the action NaN, or −1 where "
        "actions are numbers of a list.",
    ]
    arithmetic = "float" if isinstance(library.policies, Mlp) else "double"
    said = library.contract(command=command, arithmetic=arithmetic, notes=notes)
    files = {"library.onnx": model, "contract.json": json_bytes(said)}
    return write_new(folder, files)


def library_model(library: PolicyLibrary) -> Any:
    """Return the ONNX model of a library: `context`, `observation` to `action`.

    Args:
        library: the library.
    """
    library.require_coordinates("An ONNX graph selects by contexts with coordinates")
    library = memoryless(library, "An ONNX graph")
    graph = _Graph("library")
    graph.input("context", "float64", ["batch", len(library.names)])
    policy, status = _select(graph, library)
    if library.policies is not None:
        seen, acted = _signals(library.policies)
        observation = graph.input("observation", *seen)
        index = graph("Max", policy, graph.zero)
        action = _act(graph, library.policies, observation, index)
        refused = graph("Equal", policy, graph.constant(np.int64(-1)))
        for _ in acted[1][1:]:
            refused = graph("Unsqueeze", refused, graph.constant(np.array([-1])))
        # No action: not a number, or −1 among actions by number.
        nothing = np.array(-1 if acted[0] == "int64" else np.nan, acted[0])
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
        region, node = _boxes(graph, regions, safe), None
        if regions.nodes is not None:
            node = graph("Gather", graph.constant(regions.nodes), region)
    policy = graph("Gather", graph.constant(regions.policy), region)
    status = graph(
        "Where",
        inside,
        graph.constant(np.int64(Status.INSIDE)),
        graph.constant(np.int64(Status.OUTSIDE)),
    )
    if library.guarantee.status != Status.INSIDE:
        is_known = inside
        if node is not None:
            # Equal is not defined for double everywhere: neither above nor below.
            apart = graph("Or", graph("Less", safe, node), graph("Greater", safe, node))
            is_known = graph("And", is_known, graph.all(graph("Not", apart)))
        here = graph("Gather", graph.constant(library.statuses()), region)
        status = graph("Where", is_known, here, status)
    fine = inside
    if library.outside != "refuse":  # inside of finite ends is finite
        bound = graph.constant(np.array(np.finfo(np.float64).max))
        fine = graph.all(graph("LessOrEqual", graph("Abs", "context"), bound))
    if (regions.policy < 0).any():
        fine = graph("And", fine, graph("Not", graph("Less", policy, graph.zero)))
    status = graph("Where", fine, status, graph.constant(np.int64(Status.REFUSED)))
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
    values = graph.constant(np.concatenate(regions.values))
    return region, graph("Gather", values, place)


def _boxes(graph: "_Graph", regions: BoxRegions, rows: str) -> str:
    """Return the first box that holds each row."""
    low, high = (graph.constant(ends[None]) for ends in regions.open_ends)
    wide = graph("Unsqueeze", rows, graph.constant(np.array([1])))
    inside = graph("And", graph("Greater", wide, low), graph("LessOrEqual", wide, high))
    holds = graph("ReduceMin", graph("Cast", inside, to="int32"), axes=[-1], keepdims=0)
    return graph("ArgMax", holds, axis=-1, keepdims=0)


# --- policies ---------------------------------------------------------------------


Signal = tuple[str, list[str | int]]
"""Type and shape of observations or actions."""


def _signals(policy: Policy) -> tuple[Signal, Signal]:
    """Return what the observations and the actions of a policy are."""
    if isinstance(policy, LinearGain):
        n_actions, n_seen = policy.gain.shape[-2:]
        return ("float64", ["batch", n_seen]), ("float64", ["batch", n_actions])
    assert isinstance(policy, Mlp)
    seen: Signal = "float32", ["batch", policy.weights[0].shape[-2]]
    if policy.head == "argmax":
        return seen, ("int64", ["batch"])
    return seen, ("float32", ["batch", policy.biases[-1].shape[-1]])


def _act(graph: "_Graph", policies: Policy, seen: str, index: str) -> str:
    """Return the actions of the policies of a stack that the indices name."""

    def pick(array: NDArray[Any]) -> str:
        return graph("Gather", graph.constant(array), index)

    if isinstance(policies, LinearGain):
        column = graph("Unsqueeze", seen, graph.constant(np.array([-1])))
        product = graph("MatMul", pick(-policies.gain), column)
        return graph("Squeeze", product, graph.constant(np.array([-1])))
    assert isinstance(policies, Mlp)
    one = graph.constant(np.array([1]))
    x = graph("Unsqueeze", seen, one)
    for i, (weight, bias) in enumerate(
        zip(policies.weights, policies.biases, strict=True)
    ):
        product = graph("MatMul", x, pick(weight.astype(np.float32)))
        x = graph("Add", product, pick(bias.astype(np.float32)[..., None, :]))
        if i < len(policies.weights) - 1:
            x = graph("Tanh" if policies.activation == "tanh" else "Relu", x)
    x = graph("Squeeze", x, one)
    if policies.head == "argmax":
        return graph("ArgMax", x, axis=-1, keepdims=0)
    low, high = np.float32(policies.action_low), np.float32(policies.action_high)
    if policies.head == "squash":
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
