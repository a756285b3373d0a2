// Complexity against the tolerance, and coverage against the number of policies.

import { h, show, svg } from "./dom.js";
import { count, linearTicks, logTicks, number, percent, scale } from "./numbers.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./view.js").Answer} Answer */

export const SIZE = { width: 420, height: 215, left: 62, right: 24, top: 14, bottom: 40 };
export const INNER = {
  w: SIZE.width - SIZE.left - SIZE.right, h: SIZE.height - SIZE.top - SIZE.bottom,
};

/** @param {string} label what a screen reader says. */
export function frame(label) {
  return svg("svg", {
    viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, class: "chart", role: "img", "aria-label": label,
  });
}

/**
 * @param {{ at: (v: number) => number, ticks: number[] }} x
 * @param {{ at: (v: number) => number, ticks: number[] }} y
 * @param {string} xLabel
 * @param {string} yLabel
 * @param {(v: number) => string} yText
 */
export function axes(x, y, xLabel, yLabel, yText) {
  const { left, top } = SIZE;
  const bottom = top + INNER.h;
  return [
    x.ticks.map((v) => {
      const at = left + x.at(v) * INNER.w;
      return [svg("line", { x1: at, x2: at, y1: top, y2: bottom, class: "gridline" }),
        svg("text", { x: at, y: bottom + 15, "text-anchor": "middle" }, number(v, 3))];
    }),
    y.ticks.map((v) => {
      const at = bottom - y.at(v) * INNER.h;
      return [svg("line", { x1: left, x2: left + INNER.w, y1: at, y2: at, class: "gridline" }),
        svg("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, yText(v))];
    }),
    svg("text", { x: left + INNER.w / 2, y: bottom + 33, "text-anchor": "middle", class: "label" }, xLabel),
    svg("text", {
      transform: `translate(11,${top + INNER.h / 2}) rotate(-90)`, "text-anchor": "middle",
      class: "label",
    }, yLabel),
  ];
}

/**
 * A path of steps: each value holds to the right of its point, or to the left.
 * @param {number[][]} points
 */
export function stairs(points, right = true) {
  return points.map(([x, y], i) => (!i ? `M${x},${y}` : right ? `H${x}V${y}` : `V${y}H${x}`)).join("");
}

/**
 * Where tolerances lie: in the logarithm, zero apart at the left; floors evenly.
 * @param {number[]} values
 */
function toleranceScale(values) {
  const positive = values.filter((v) => v > 0);
  if (values[0] < 0 || !positive.length) {
    return scale(values[0], values[values.length - 1], "linear", 5);
  }
  const hasZero = values[0] === 0;
  const inner = scale(positive[0], positive[positive.length - 1], "log", 5);
  if (!hasZero) return inner;
  return {
    at: (/** @type {number} */ v) => (v <= 0 ? 0 : 0.1 + 0.9 * inner.at(v)),
    value: (/** @type {number} */ at) => (at < 0.05 ? 0 : inner.value((at - 0.1) / 0.9)),
    ticks: [0, ...logTicks(positive[0], positive[positive.length - 1], 4)],
  };
}

/** Complexity against ε; a click moves the tolerance. */
export class ProfileChart {
  /** @param {(step: number) => void} onStep */
  constructor(onStep) {
    this.onStep = onStep;
    this.svg = frame("Number of sources against the tolerance");
    this.caption = h("figcaption");
    this.element = h("figure", {}, this.svg, this.caption);
    this.svg.addEventListener("pointerdown", (/** @type {PointerEvent} */ e) => {
      this.move(e);
      const move = (/** @type {any} */ m) => this.move(m);
      window.addEventListener("pointermove", move);
      window.addEventListener("pointerup",
        () => window.removeEventListener("pointermove", move), { once: true });
    });
  }

  /** @param {PointerEvent} event */
  move(event) {
    if (!this.view || !this.x) return;
    const box = this.svg.getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * SIZE.width - SIZE.left;
    const { steps } = this.view.layer.about;
    const far = (/** @type {any} */ s) => Math.abs(/** @type {any} */ (this.x).at(s.epsilon) * INNER.w - px);
    const best = steps.reduce((/** @type {number} */ b, /** @type {any} */ s, /** @type {number} */ i) =>
      (far(s) < far(steps[b]) ? i : b), 0);
    if (best !== this.view.step) this.onStep(best);
  }

  /** @param {View} view */
  draw(view) {
    this.view = view;
    const { steps } = view.layer.about;
    this.x = toleranceScale(steps.map((/** @type {any} */ s) => s.epsilon));
    const greedy = (/** @type {any} */ s) => s.covers[0].record.size;
    const most = Math.max(2, ...steps.map(greedy));
    const y = most > 20 ? scale(1, most * 1.1, "log", 5)
      : { ...scale(0, most * 1.08, "linear"), ticks: linearTicks(0, most, 4).filter(Number.isInteger) };
    const at = (/** @type {any} */ s, /** @type {number} */ v) =>
      [SIZE.left + /** @type {any} */ (this.x).at(s.epsilon) * INNER.w, SIZE.top + (1 - y.at(Math.max(v, most > 20 ? 1 : 0))) * INNER.h];
    const full = steps.filter((/** @type {any} */ s) => s.n_uncoverable === 0);
    // Sizes hold to the right of a step, bounds to the left of it.
    const line = (/** @type {(s: any) => number} */ of, right = true) =>
      stairs(full.map((/** @type {any} */ s) => at(s, of(s))), right);
    const now = steps[view.step];
    const x = SIZE.left + this.x.at(now.epsilon) * INNER.w;
    show(this.svg,
      axes(this.x, y, `tolerance ε (${view.layer.about.unit})`, "sources", (v) => number(v)),
      svg("path", { d: line(greedy), class: "line greedy" }),
      svg("path", { d: line((s) => s.upper), class: "line upper" }),
      svg("path", { d: line((s) => s.lower, false), class: "line lower" }),
      steps.filter((/** @type {any} */ s) => s.stored && s.n_uncoverable === 0).map(
        (/** @type {any} */ s) => {
          const [cx, cy] = at(s, s.upper);
          return svg("circle", { cx, cy, r: 3.5, class: "stored" });
        }),
      svg("line", { x1: x, x2: x, y1: SIZE.top, y2: SIZE.top + INNER.h, class: "now" }));
    show(this.caption, h("b", {}, "Complexity. "),
      h("span", { class: "key greedy" }, "greedy"), " ", h("span", { class: "key upper" }, "fewest found"),
      " ", h("span", { class: "key lower" }, "lower bound"),
      full.length < steps.length ? " Left of the curve some targets have no source." : "");
  }
}

/** Coverage against the number of policies, with a budget to drag. */
export class CurveChart {
  /** @param {(budget: number | null) => void} onBudget */
  constructor(onBudget) {
    this.onBudget = onBudget;
    this.svg = frame("Coverage against the number of policies");
    this.caption = h("figcaption");
    this.input = h("input", {
      type: "range", min: 0, "aria-label": "Budget: number of policies",
      oninput: () => {
        const value = Number(this.input.value);
        onBudget(value >= Number(this.input.max) ? null : value);
      },
    });
    this.output = h("output");
    this.element = h("figure", {}, this.svg,
      h("label", { class: "budget" }, "budget ", this.input, this.output), this.caption);
  }

  /**
   * @param {View} view
   * @param {Answer} answer
   */
  draw(view, answer) {
    const { cover } = view;
    const n = view.layer.n;
    const size = cover.sources.length;
    const most = Math.max(size, answer.sources.length, 2);
    const x = most > 40 ? scale(1, most, "log", 5)
      : { ...scale(0, most, "linear", 6), ticks: linearTicks(0, most, 6).filter(Number.isInteger) };
    const y = scale(0, 1, "linear", 4);
    const px = (/** @type {number} */ k) => SIZE.left + x.at(Math.max(k, most > 40 ? 1 : 0)) * INNER.w;
    const py = (/** @type {number} */ share) => SIZE.top + (1 - share) * INNER.h;
    let d = `M${px(0)},${py(0)}`;
    cover.served.forEach((/** @type {number} */ served, /** @type {number} */ i) => {
      d += `H${px(i + 1)}V${py(served / n)}`;
    });
    d += `H${px(most)}`;
    const k = view.isWhole ? size : answer.sources.length;
    const reach = (n - view.about.n_uncoverable) / n;
    show(this.svg, axes(x, y, "policies kept", "targets served", percent),
      svg("path", { d, class: "line upper" }),
      reach < 1 ? svg("line", { x1: SIZE.left, x2: SIZE.left + INNER.w, y1: py(reach), y2: py(reach), class: "line lower" }) : null,
      svg("line", { x1: px(k), x2: px(k), y1: SIZE.top, y2: SIZE.top + INNER.h, class: "now" }),
      svg("circle", { cx: px(answer.sources.length), cy: py(answer.served / n), r: 5, class: "stored" }));
    this.input.max = String(size);
    this.input.value = String(Math.min(size, k));
    this.input.disabled = view.method === "hand"
      || !cover.sources.every((/** @type {number} */ s) => view.page.rowOf.has(s));
    this.output.textContent = ` ${count(answer.sources.length)} of ${count(size)}: ${percent(answer.served / n)}`;
    show(this.caption, h("b", {}, "Coverage. "),
      h("span", { class: "key upper" }, cover.record.method), ", most useful first",
      this.input.disabled && view.method !== "hand"
        ? " The rows of these sources are not in this file, so the cover is shown whole." : "");
  }
}
