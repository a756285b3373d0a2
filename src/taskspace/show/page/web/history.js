// A selection: what was spent, and what that covered.

import { axes, frame, INNER, SIZE, stairs } from "./charts.js";
import { h, show, svg } from "./dom.js";
import { count, percent, scale } from "./numbers.js";

/** @typedef {import("./data.js").Page} Page */

const SPENT = /** @type {[string, string][]} */ ([
  ["trainings", "trainings"], ["environment_steps", "environment steps"],
  ["evaluations", "evaluations of a policy at a target"],
]);

/** @param {Page} page */
export function historyPart(page) {
  const { selection } = page.header;
  const chart = frame("Coverage against what was spent");
  /** @type {any[]} */
  const steps = selection.history;
  const failed = selection.sources.filter((/** @type {any} */ s) => s.state === "failed").length;
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
      svg("path", { d: stairs(points), class: "line upper" }),
      points.map(([cx, cy]) => svg("circle", { cx, cy, r: 2.5, class: "stored" })));
  };
  draw();
  return h("div", { class: "below" },
    h("figure", {}, h("p", {}, `${selection.title}. Coverage against `, choice), chart,
      h("figcaption", {}, h("span", { class: "key upper" },
        `selector ${selection.selector}: ${count(steps.at(-1)?.trainings ?? 0)} trainings${failed ? `, ${failed} failed` : ""}`))));
}
