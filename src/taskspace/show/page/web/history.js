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
  const caption = h("figcaption");
  const { own, rivals } = selection;
  const choice = h("select", { class: "spent", "aria-label": "Drawn against", onchange: () => draw() },
    SPENT.filter(([name]) => name === "trainings" || own[name].some((/** @type {number} */ v) => v > 0))
      .map(([name, label]) => h("option", { value: name }, label)));
  const draw = () => {
    const name = choice.value;
    const isTrainings = name === "trainings";
    const greedy = isTrainings ? selection.greedy : [];
    const most = Math.max(...own[name], greedy.length, 1);
    const right = rivals.length ? 1.5 * most : most;
    const x = scale(0, right, "linear", 6);
    const y = scale(0, 1, "linear", 5);
    const at = (/** @type {number} */ sx, /** @type {number} */ sy) => /** @type {[number, number]} */ (
      [SIZE.left + x.at(sx) * INNER.w, SIZE.top + (1 - y.at(sy)) * INNER.h]);
    const line = (/** @type {number[]} */ xs, /** @type {number[]} */ ys, /** @type {string} */ kind) => {
      const points = xs.map((v, i) => /** @type {[number, number]} */ ([v, ys[i]])).filter(([v]) => v <= right);
      return svg("path", { d: stairsOf(points.map(([v, share]) => at(v, share))), class: `line ${kind}` });
    };
    const bound = isTrainings ? selection.lower_bound : null;
    show(chart, axes(x, y, SPENT.find(([n]) => n === name)?.[1] ?? "", "targets covered", percent),
      rivals.map((/** @type {any} */ r) => line(r[name], r.coverage, r.name)),
      greedy.length ? line(greedy.map((/** @type {number} */ _, /** @type {number} */ i) => i + 1), greedy, "greedy") : null,
      bound === null ? null : svg("line", {
        x1: at(bound, 0)[0], x2: at(bound, 0)[0], y1: SIZE.top, y2: SIZE.top + INNER.h, class: "line lower",
      }),
      line(own[name], own.coverage, "upper"),
      own[name].map((/** @type {number} */ v, /** @type {number} */ i) => {
        const [cx, cy] = at(v, own.coverage[i]);
        return svg("circle", { cx, cy, r: 2.5, class: "stored" });
      }));
    const { minimum } = selection;
    show(caption, h("span", { class: "key upper" }, `selector ${selection.selector}: ${count(own.trainings.at(-1) ?? 0)} trainings`),
      greedy.length ? [" ", h("span", { class: "key greedy" }, `an oracle's greedy, which sees the table of all candidates: ${greedy.length}`)] : null,
      rivals.map((/** @type {any} */ r) => [" ", h("span", { class: `key ${r.name}` }, r.name)]),
      bound === null ? null : [" ", h("span", { class: "key lower" }, `no selector needs fewer than ${bound}`)],
      minimum ? ` The oracle's smallest cover has ${minimum[0] === minimum[1] ? minimum[1] : `${minimum[0]} to ${minimum[1]}`} sources.` : null);
  };
  draw();
  return h("div", { class: "below" },
    h("figure", {}, h("p", {}, `${selection.title}. Coverage against `, choice), chart, caption),
    h("section", { class: "trained-list" }, trainedTable(page)));
}

/** @param {Page} page */
function trainedTable(page) {
  const { selection, sources } = page.header;
  const names = sources.axes.map((/** @type {any} */ a) => a.name);
  /** @type {any[]} */
  const all = selection.sources;
  const failed = all.filter((s) => s.state === "failed").length;
  const made = all.filter((s) => s.made_from.length).length;
  const rows = all.map((s, i) => [String(i + 1), s.kind,
    s.context.map((/** @type {number} */ v, /** @type {number} */ a) => `${names[a] ?? ""} ${number(v)}`).join(", "),
    s.state === "failed" ? `failed: ${s.reason}`
      : s.region.length ? `${s.state}, for ${count(s.region.reduce((/** @type {number} */ n, /** @type {number[]} */ [a, b]) => n + b - a, 0))} targets`
      : s.made_from.length ? `from ${s.made_from.map((/** @type {number} */ n) => n + 1).join(", ")}` : s.state]);
  return [grid(["", "kind", "at", ""], rows, "Sources in the order of their proposal"),
    h("p", { class: "hint" }, "In the order of their proposal.",
      made ? ` ${made} of them were made from others by interpolation, not trained: diamonds in the map.` : "",
      failed ? ` ${failed} failed.` : "")];
}
