// One context under the glass: who serves it, with what margin, and who else could.

import { boxWords } from "./boxes.js";
import { grid, h, show } from "./dom.js";
import { count, number } from "./numbers.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./view.js").Answer} Answer */

const OTHERS = 8;

/**
 * @param {Element} element where to show it.
 * @param {View} view
 * @param {Answer} answer
 * @param {{ toggle: (source: number) => void, only: (source: number) => void,
 *   play: ((source: number, target: number) => any) | null }} on
 */
export function showDetail(element, view, answer, on) {
  const { page, pick, layer, step, epsilon } = view;
  if (pick < 0) {
    show(element, h("p", { class: "hint" },
      "Click a context of the map to see its loss under every source, who serves it and with what margin."));
    return;
  }
  const about = layer.isExact ? "" : "≈ ";
  const place = answer.who[pick];
  const source = place < 0 ? -1 : answer.sources[place];
  const loss = source < 0 ? null : view.loss(source, pick);
  const served = source < 0
    ? h("p", {}, layer.reach[pick] > step
      ? "No source of the table serves it at this tolerance."
      : "No selected source serves it, but others would.")
    : h("p", {}, "Served by ", h("b", {}, `${place + 1}`), ` (${page.name("source", source)})`,
      loss === null ? "." : ` with a loss of ${about}${number(loss, 6)}, a margin of ${about}${number(epsilon - loss, 4)} to ε = ${number(epsilon)}`,
      loss === null ? "" : `${errorText(view, source, pick)}.`);
  const first = layer.reach[pick];
  const { steps } = layer.about;
  const reach = first < steps.length
    ? `Some source serves it from ε = ${number(steps[first].epsilon)} on.`
    : "No source serves it at any tolerance of the slider.";
  const top = page.bestKnown ? page.bestKnown[pick] : null;
  const best = top === null ? "" : Number.isNaN(top)
    ? " It has no reference: no policy was trained there, no optimum is known and none is stated."
    : ` Best known performance there: ${number(top, 6)}.`;
  const own = ownSource(view, pick);
  const ownSize = own < 0 ? null : view.setSize(own);
  const button = (/** @type {string} */ text, /** @type {() => void} */ act) =>
    h("button", { type: "button", onclick: act }, text);
  const ownPart = own < 0 && !page.header.targets.axes.length ? null
    : own < 0 || ownSize === null
    ? h("p", { class: "hint" }, own < 0
      ? "No source was trained at this very context."
      : "A source was trained here; its row is not in this file (max_rows of ts.explore takes more in).")
    : h("p", {}, `The source trained here serves ${count(ownSize)} of ${count(layer.n)} contexts (its tolerance set). `,
      button(answer.sources.includes(own) ? "Take it out" : "Take it in", () => on.toggle(own)), " ",
      button("Show its tolerance set", () => on.only(own)));
  const certified = view.boxes
    ? h("p", { class: "certified" }, boxWords(view, answer, page.valuesOf(pick))) : null;
  const player = source >= 0 ? source : leastLoss(view, answer);
  const play = on.play && player >= 0 ? [
    source >= 0 ? null : h("p", {}, `Of the selected sources ${answer.sources.indexOf(player) + 1} (${page.name("source", player)}) loses least here.`),
    on.play(player, pick)]
    : page.header.no_play ? h("p", { class: "hint no-play" }, page.header.no_play) : null;
  show(element, h("h3", {}, page.name("target", pick)), served, certified,
    h("p", {}, reach, best), play,
    ownPart, losses(view, answer, about, on));
}

/**
 * @param {View} view
 * @param {number} source
 * @param {number} target
 */
function errorText(view, source, target) {
  const { error, n } = view.layer;
  const row = view.page.rowOf.get(source);
  if (!error || row === undefined) return "";
  return ` (standard error ${number(error[row * n + target], 3)})`;
}

/**
 * The selected source of least loss at the picked target, −1 if none has its row here.
 * @param {View} view
 * @param {Answer} answer
 */
function leastLoss(view, answer) {
  const { rank, n } = view.layer;
  let [found, best] = [-1, Infinity];
  for (const source of answer.sources) {
    const row = view.page.rowOf.get(source);
    if (row !== undefined && rank[row * n + view.pick] < best) [found, best] = [source, rank[row * n + view.pick]];
  }
  return found;
}

/**
 * The source whose context is that of a target, −1 if there is none.
 * @param {View} view
 * @param {number} target
 */
export function ownSource(view, target) {
  const { page } = view;
  const { sources, targets } = page.header;
  if (!page.sourceContexts || !page.targetContexts) {
    if (!sources.names || !targets.names) return sources.n === targets.n ? target : -1;
    return sources.names.indexOf(targets.names[target]);
  }
  const n = targets.axes.length;
  if (sources.axes.length !== n) return -1;
  const same = (/** @type {number} */ s) => {
    for (let a = 0; a < n; a += 1) {
      if (page.sourceContexts?.[s * n + a] !== page.targetContexts?.[target * n + a]) return false;
    }
    return true;
  };
  if (sources.n === targets.n && same(target)) return target;
  for (let s = 0; s < sources.n; s += 1) if (same(s)) return s;
  return -1;
}

/**
 * Losses at the picked target: all selected sources, then the best of the others.
 * @param {View} view
 * @param {Answer} answer
 * @param {string} about
 * @param {{ toggle: (source: number) => void }} on
 */
function losses(view, answer, about, on) {
  const { page, layer, pick, step } = view;
  const n = layer.n;
  const rank = (/** @type {number} */ row) => layer.rank[row * n + pick];
  const others = Array.from(page.rows.keys())
    .filter((row) => !answer.sources.includes(page.rows[row]))
    .sort((a, b) => rank(a) - rank(b)).slice(0, OTHERS).map((row) => page.rows[row]);
  const line = (/** @type {number} */ source, /** @type {string} */ label) => {
    const row = page.rowOf.get(source);
    const loss = view.loss(source, pick);
    return [label, page.name("source", source),
      loss === null ? "not in this file" : `${about}${number(loss, 6)}`,
      row === undefined ? "" : layer.first[row * n + pick] <= step ? "yes" : "no",
      !view.isHere ? "" : h("button", { type: "button", class: "small", onclick: () => on.toggle(source) }, label ? "take out" : "take in")];
  };
  const chosen = answer.sources.map((s, i) => /** @type {[number, string]} */ ([s, String(i + 1)]));
  chosen.sort(([a], [b]) => {
    const at = (/** @type {number} */ s) => {
      const row = page.rowOf.get(s);
      return row === undefined ? Infinity : rank(row);
    };
    return at(a) - at(b);
  });
  const all = page.rows.length === page.header.sources.n;
  return h("details", { open: true }, h("summary", {}, "Its loss under every source"),
    grid(["", "source", `loss (${layer.about.unit})`, "serves it", ""],
      [...chosen.map(([s, label]) => line(s, label)), ...others.map((s) => line(s, ""))],
      "Losses at this context"),
    h("p", { class: "hint" }, `Selected sources first, then the ${others.length} best of the others${all ? "" : " in this file"}.`));
}
