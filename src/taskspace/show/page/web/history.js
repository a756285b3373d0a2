// A selection: what was trained, in which order, and what that covered.

import { axes, frame, INNER, SIZE } from "./charts.js";
import { grid, h, show, svg } from "./dom.js";
import { count, number, percent, scale } from "./numbers.js";

/** @typedef {import("./data.js").Page} Page */

const SPENT = /** @type {[string, string][]} */ ([
  ["trainings", "trainings"], ["environment_steps", "environment steps"],
  ["evaluations", "evaluations of a policy at a target"],
]);

/**
 * @param {[number, number][]} points
 * @returns {string} a path that holds each value until the next one.
 */
function stairsOf(points) {
  return points.map(([x, y], i) => (i ? `H${x}V${y}` : `M${x},${y}`)).join("");
}

/** @param {Page} page */
export function historyPart(page) {
  const { selection } = page.header;
  const chart = frame("Coverage against what was spent");
  /** @type {any[]} */
  const steps = selection.history;
  const choice = h("select", { class: "spent", "aria-label": "Drawn against", onchange: () => draw() },
    SPENT.filter(([name]) => name === "trainings" || steps.some((s) => s[name] > 0))
      .map(([name, label]) => h("option", { value: name }, label)));
  const draw = () => {
    const name = choice.value;
    const x = scale(0, Math.max(...steps.map((s) => s[name]), 1), "linear", 6);
    const y = scale(0, 1, "linear", 5);
    const points = steps.map((s) => /** @type {[number, number]} */ (
      [SIZE.left + x.at(s[name]) * INNER.w, SIZE.top + (1 - y.at(s.coverage)) * INNER.h]));
    show(chart, axes(x, y, SPENT.find(([n]) => n === name)?.[1] ?? "", "targets covered", percent),
      svg("path", { d: stairsOf(points), class: "line upper" }),
      points.map(([cx, cy]) => svg("circle", { cx, cy, r: 2.5, class: "stored" })));
  };
  draw();
  return h("div", { class: "below" },
    h("figure", {}, h("p", {}, `${selection.title}. Coverage against `, choice), chart,
      h("figcaption", {}, h("span", { class: "key upper" },
        `selector ${selection.selector}: ${count(steps.at(-1)?.trainings ?? 0)} trainings`))),
    h("section", { class: "trained-list" }, trainedTable(page)));
}

/** @param {Page} page */
function trainedTable(page) {
  const { selection, sources } = page.header;
  const names = sources.axes.map((/** @type {any} */ a) => a.name);
  /** @type {any[]} */
  const all = selection.sources;
  const failed = all.filter((s) => s.state === "failed").length;
  const rows = all.map((s, i) => [String(i + 1), s.kind,
    s.context.map((/** @type {number} */ v, /** @type {number} */ a) => `${names[a] ?? ""} ${number(v)}`).join(", "),
    s.state === "failed" ? `failed: ${s.reason}`
      : s.region.length ? `${s.state}, for ${count(s.region.reduce((/** @type {number} */ n, /** @type {number[]} */ [a, b]) => n + b - a, 0))} targets`
      : s.state]);
  return [grid(["", "kind", "at", ""], rows, "Sources in the order of their proposal"),
    h("p", { class: "hint" }, "In the order of their proposal.",
      failed ? ` ${failed} failed.` : "")];
}
