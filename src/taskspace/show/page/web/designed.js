// Designed gains: loss against their number, beside candidates and any design.

import { axes, frame, INNER, SIZE } from "./charts.js";
import { h, show, svg } from "./dom.js";
import { number, scale } from "./numbers.js";

const CURVES = /** @type {[string, string, string][]} */ ([
  ["candidates", "greedy", "best of the candidates"], ["designed", "upper", "designed gains"],
  ["lower", "lower", "no gains of any design lose less"],
]);

/** @param {import("./data.js").Page} page */
export function designPart(page) {
  const { points, question, sentences } = page.header.design;
  const chart = frame("Loss against the number of gains");
  const losses = points.flatMap((/** @type {any} */ p) => [p.candidates, p.designed, p.lower]);
  const least = Math.min(0, ...losses);
  const y = scale(least, Math.max(...losses) * 1.05, "linear", 5);
  const last = points[points.length - 1].k;
  const x = { ...scale(0, last, "linear"), ticks: points.map((/** @type {any} */ p) => p.k) };
  const at = (/** @type {any} */ p, /** @type {string} */ name) =>
    [SIZE.left + x.at(p.k) * INNER.w, SIZE.top + (1 - y.at(p[name])) * INNER.h];
  const isShare = page.header.layers.some((/** @type {any} */ l) =>
    l.criterion === question.criterion && l.unit.startsWith("share"));
  show(chart,
    axes(x, y, "gains", `${question.criterion} at the worst target`, (v) => (isShare ? `${number(100 * v)} %` : number(v))),
    CURVES.map(([name, style]) => [
      svg("path", {
        d: `M${points.map((/** @type {any} */ p) => at(p, name).join(",")).join("L")}`, class: `line ${style}`,
      }),
      points.map((/** @type {any} */ p) => {
        const [cx, cy] = at(p, name);
        return svg("circle", { cx, cy, r: 2.5, class: "stored" });
      })]));
  return h("div", { class: "below" },
    h("figure", {}, chart, h("figcaption", {},
      CURVES.map(([, style, label]) => [h("span", { class: `key ${style}` }, label), " "]))),
    h("section", {}, h("ul", {}, sentences.map((/** @type {string} */ s) => h("li", {}, s)))));
}
