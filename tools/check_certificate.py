"""Check a certificate file of taskspace: a few gains serve every context of a box.

It imports nothing of taskspace. Every number is a ball of python-flint that contains
the true one. NumPy only holds them, and guesses a matrix that needs no proof.

    python tools/check_certificate.py certificate.json

The claim. For every context θ of the range, one of the stated gains K makes
x' = (A − BK) x stable (x⁺ in discrete time), and its cost J, the mean of
∫ xᵀQx + uᵀRu over starts with E[x₀x₀ᵀ] = Σ, is within the tolerance of the least cost
J* of any stabilising gain: J ≤ (1 + ε) J*  (ratio) or J ≤ J* + ε  (regret).

The proof, on each box with centre m, for P(θ) = P₀ + Σ P_k (θ_k − m_k), S(θ) likewise:

1. P ≻ 0 and AᴷᵀP + PAᴷ + Q + KᵀRK ≺ 0 with Aᴷ = A − BK: then J ≤ tr PΣ, and stable.
2. [[AᵀS + SA + Q, SB], [BᵀS, R]] ≻ 0: then tr SΣ ≤ J*.
3. tr PΣ ≤ (1 + ε) tr SΣ, or tr PΣ ≤ tr SΣ + ε.
4. The boxes cover the range.

In discrete time 1. has AᴷᵀPAᴷ − P, and 2. [[AᵀSA − S + Q, AᵀSB], [BᵀSA, BᵀSB + R]].
docs/testing.md describes the format of the file.
"""

import ast
import json
import sys
from fractions import Fraction

import numpy as np
from flint import arb, ctx, fmpq

ctx.prec = 128


def exact(number):
    """Return a float of the file as the ball that holds just this number."""
    return arb(fmpq(*Fraction(number).as_integer_ratio()))


class Taylor:
    """c + g·δ + r on one box: a number, a slope per axis, and a ball for the rest."""

    def __init__(self, c, g, r, h):
        self.c, self.g, self.r, self.h = c, g, r, h

    @property
    def moving(self):
        """What depends on the context, as a ball."""
        return sum((g * h for g, h in zip(self.g, self.h, strict=True)), self.r)

    @property
    def ball(self):
        """All values on the box."""
        return self.c + self.moving

    def lift(self, other):
        """Return a plain ball as a Taylor form."""
        if isinstance(other, Taylor):
            return other
        return Taylor(arb(other), [arb(0)] * len(self.h), arb(0), self.h)

    def __add__(self, other):
        other = self.lift(other)
        slopes = [a + b for a, b in zip(self.g, other.g, strict=True)]
        return Taylor(self.c + other.c, slopes, self.r + other.r, self.h)

    def __neg__(self):
        return Taylor(-self.c, [-a for a in self.g], -self.r, self.h)

    def __sub__(self, other):
        return self + -self.lift(other)

    def __mul__(self, other):
        other = self.lift(other)
        slopes = [
            self.c * b + other.c * a for a, b in zip(self.g, other.g, strict=True)
        ]
        linear = self.moving - self.r
        rest = linear * (other.moving - other.r)
        rest += self.r * other.ball + other.r * (self.c + linear)
        return Taylor(self.c * other.c, slopes, rest, self.h)

    def apply(self, value, slope, curvature):
        """Return f of it: f(c) + f'(c)(u − c) + f''(box)(u − c)²/2."""
        first = slope(self.c)
        rest = first * self.r + curvature(self.ball) * self.moving * self.moving / 2
        return Taylor(value(self.c), [first * a for a in self.g], rest, self.h)


FUNCTIONS = {
    "sqrt": (arb.sqrt, lambda x: 1 / (2 * x.sqrt()), lambda x: -1 / (4 * x * x.sqrt())),
    "exp": (arb.exp, arb.exp, arb.exp),
    "log": (arb.log, lambda x: 1 / x, lambda x: -1 / (x * x)),
    "sin": (arb.sin, arb.cos, lambda x: -x.sin()),
    "cos": (arb.cos, lambda x: -x.sin(), lambda x: -x.cos()),
}
RECIPROCAL = (lambda x: 1 / x, lambda x: -1 / (x * x), lambda x: 2 / (x * x * x))


def evaluate(node, axes):
    """Return the value of an expression: +, -, *, /, the functions above, numbers."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return next(iter(axes.values())).lift(exact(number))
        case ast.Name(id=name) if name in axes:
            return axes[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -evaluate(operand, axes)
        case ast.BinOp(left=left, op=op, right=right):
            x, y = evaluate(left, axes), evaluate(right, axes)
            match op:
                case ast.Add():
                    return x + y
                case ast.Sub():
                    return x - y
                case ast.Mult():
                    return x * y
                case ast.Div():
                    return x * y.apply(*RECIPROCAL)
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in FUNCTIONS:
            return evaluate(argument, axes).apply(*FUNCTIONS[name])
    raise ValueError(f"{ast.unparse(node)} is no expression of a certificate.")


def is_positive(X):
    """Return whether a symmetric matrix is positive definite on the whole box.

    T X Tᵀ, for a T that makes it nearly the identity, has only positive eigenvalues if
    each diagonal entry exceeds the sum of the others in its row (Gershgorin).
    """
    centre = np.array([[float(x.c.mid()) for x in row] for row in X])
    try:
        guess = np.linalg.inv(np.linalg.cholesky(centre))
    except np.linalg.LinAlgError:
        return False
    T = np.array([[X[0, 0].lift(exact(t)) for t in row] for row in guess.tolist()])
    N = [[x.ball for x in row] for row in T @ X @ T.T]
    return all(
        row[i] > sum((abs(x) for j, x in enumerate(row) if j != i), arb(0))
        for i, row in enumerate(N)
    )


def check_box(file, box):
    """Return why a box proves nothing, or an empty text."""
    low, high = [exact(x) for x in box["low"]], [exact(x) for x in box["high"]]
    middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
    h = [((b - a) / 2) * arb(0, 1) for a, b in zip(low, high, strict=True)]
    d = len(h)
    axes = {
        name: Taylor(middle[k], [arb(int(j == k)) for j in range(d)], arb(0), h)
        for k, name in enumerate(file["axes"])
    }
    one = axes[file["axes"][0]]

    def matrix(rows, read):
        return np.array([[read(x) for x in row] for row in rows], object)

    def formula(text):
        return evaluate(ast.parse(text, mode="eval").body, axes)

    def number(x):
        return one.lift(exact(x))

    def candidate(stack):
        cells = zip(*(np.ravel(np.array(X, object)) for X in stack), strict=True)
        forms = [Taylor(exact(c), list(map(exact, g)), arb(0), h) for c, *g in cells]
        return np.array(forms, object).reshape(len(stack[0]), -1)

    if any(X != transposed(X) for X in box["P"] + box["S"]):
        return "a candidate is not symmetric"
    if {len(box["P"]), len(box["S"])} != {d + 1}:
        return "a candidate needs one slope per axis"
    A, B, Q, R = (matrix(file[name], formula) for name in "ABQR")
    K, W = (
        matrix(file["gains"][box["gain"]], number),
        matrix(file["x0_covariance"], number),
    )
    P, S = candidate(box["P"]), candidate(box["S"])
    loop, weight = A - B @ K, Q + K.T @ R @ K
    if file["time"] == "discrete":
        decrease = P - loop.T @ P @ loop - weight
        block = [[A.T @ S @ A - S + Q, A.T @ S @ B], [B.T @ S @ A, B.T @ S @ B + R]]
    else:
        decrease = -(loop.T @ P + P @ loop + weight)
        block = [[A.T @ S + S @ A + Q, S @ B], [B.T @ S, R]]
    upper, lower = np.trace(P @ W), np.trace(S @ W)
    epsilon = exact(Fraction(file["epsilon"]))
    if file["criterion"] == "ratio":
        slack = lower * (1 + epsilon) - upper
    elif file["criterion"] == "regret":
        slack = lower + epsilon - upper
    else:
        return f"the criterion {file['criterion']!r} is not known"
    if not is_positive(P):
        return "P is not positive definite"
    if not is_positive(decrease):
        return "P is no Lyapunov matrix of the loop with the stated cost"
    if not is_positive(np.block(block)):
        return "S is no lower bound of the optimum"
    return "" if slack.ball > 0 else "the bounds are further apart than the tolerance"


def transposed(rows):
    """Return the transpose of a matrix, as lists of rows."""
    return [list(row) for row in zip(*rows, strict=True)]


def is_covariance(rows):
    """Return whether a matrix is symmetric and positive semidefinite; exactly."""
    X = [[Fraction(x) for x in row] for row in rows]
    if X != transposed(X):
        return False
    while X:
        pivot, *rest = X.pop(0)
        if pivot < 0 or (pivot == 0 and any(rest)):
            return False
        for row, x in zip(X, rest, strict=True):
            row[:] = [
                a - x * b / (pivot or 1) for a, b in zip(row[1:], rest, strict=True)
            ]
    return True


def find_gap(low, high, boxes):
    """Return a part of a region that no box covers, or None; exact comparisons."""
    near = [
        (a, b)
        for a, b in boxes
        if all(x < v and u < y for x, y, u, v in zip(a, b, low, high, strict=True))
    ]
    if not near:
        return low, high
    for a, b in near:
        if all(x <= u and v <= y for x, y, u, v in zip(a, b, low, high, strict=True)):
            return None
    for k, (u, v) in enumerate(zip(low, high, strict=True)):
        cuts = sorted({x for box in near for x in (box[0][k], box[1][k]) if u < x < v})
        if cuts:
            cut = cuts[len(cuts) // 2]
            left = find_gap(low, [*high[:k], cut, *high[k + 1 :]], near)
            return left or find_gap([*low[:k], cut, *low[k + 1 :]], high, near)
    return low, high


def check(file):
    """Return a list of faults; empty if everything that the file claims is proven."""
    if file.get("format") != "taskspace-certificate" or file.get("version") != 1:
        return ["this is no certificate file of version 1"]
    if not is_covariance(file["x0_covariance"]):
        return ["E[x0 x0ᵀ] is not a covariance matrix"]
    if any(file[name] != transposed(file[name]) for name in "QR"):
        return ["Q and R must be symmetric"]
    faults = [
        f"box {number}: {fault}"
        for number, box in enumerate(file["boxes"])
        if (fault := check_box(file, box))
    ]
    sides = [(box["low"], box["high"]) for box in file["boxes"]]
    gap = find_gap(file["low"], file["high"], sides)
    if gap is not None:
        faults.append(f"no box covers the contexts from {gap[0]} to {gap[1]}")
    return faults


def main(path):
    """Check one file, and say what is proven."""
    with open(path) as text:
        file = json.load(text)
    faults = check(file)
    for fault in faults[:10]:
        print(fault)
    if faults:
        print(f"Not proven: {len(faults)} faults.")
        return 1
    ranges = zip(file["axes"], file["low"], file["high"], strict=True)
    where = ", ".join(f"{name} in [{low}, {high}]" for name, low, high in ranges)
    print(
        f"Proven: for every context with {where} one of {len(file['gains'])} gains "
        f"has {file['criterion']} <= {file['epsilon']} ({len(file['boxes'])} boxes)."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
