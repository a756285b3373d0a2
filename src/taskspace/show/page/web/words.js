// What a view may say of itself, in plain words.

import { certificateOf } from "./boxes.js";
import { count, number, percent } from "./numbers.js";

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./view.js").Answer} Answer */

const GROUND = /** @type {Record<string, [string, string]>} */ ({
  exact: ["proof", "The numbers of the table are exact, so this holds at every context of it."],
  sampled: ["estimate", "The numbers of the table are means of episodes, so this holds for the table and is an estimate of the truth."],
  given: ["given", "This holds for the numbers as they were given; where they come from is not known here."],
});

/**
 * The answer as one sentence, in parts: the first is the number to remember.
 * @param {View} view
 * @param {Answer} answer
 * @returns {[string, string]}
 */
export function sentence(view, answer) {
  const n = view.layer.n;
  const size = answer.sources.length;
  const things = size === 1 ? "1 source" : `${count(size)} sources`;
  const whom = view.page.header.targets.axes.length ? "contexts" : "targets";
  const verb = size === 1 ? "serves" : "serve";
  const rest = answer.served === n
    ? `${verb} all ${count(n)} ${whom} within ${view.about.sentence}.`
    : `${verb} ${count(answer.served)} of ${count(n)} ${whom} (${percent(answer.served / n)}) within ${view.about.sentence}.`;
  return [things, rest];
}

/**
 * What is proven, confident or estimated about it.
 * @param {View} view
 * @param {Answer} answer
 * @returns {{ kind: string, text: string }[]}
 */
export function claims(view, answer) {
  const { header } = view.page;
  const [kind, ground] = GROUND[header.provenance];
  const { bound, kind: boundKind } = view.bound(answer);
  const size = answer.sources.length;
  const found = [];
  const lacking = view.layer.about.n_without_reference ?? 0;
  const lost = view.about.n_uncoverable - lacking;
  const as = answer.served === view.layer.n ? "all of them" : "as many";
  if (size && bound >= size) {
    found.push({ kind, text: `No fewer of these ${count(header.sources.n)} sources serve ${as}; others may.` });
  } else if (size) {
    const isFull = answer.served === view.layer.n - view.about.n_uncoverable;
    const rest = isFull && view.about.upper < size
      ? `, and ${count(view.about.upper)} are enough` : `; whether ${count(size)} is the least is open`;
    const how = boundKind === "size" ? ` (no source serves more than ${count(view.about.largest)} targets)` : "";
    found.push({ kind, text: `At least ${count(bound)} of these ${count(header.sources.n)} sources ${bound === 1 ? "is" : "are"} needed to serve ${as}${how}${rest}.` });
    if (view.about.time_up && view.isWhole) {
      found.push({ kind: "open", text: "The time limit ended the search at this tolerance; --time-limit gives it more." });
    }
  }
  found.push({ kind, text: ground });
  if (lacking) {
    found.push({ kind: "warning", text: `${count(lacking)} ${lacking === 1 ? "context has" : "contexts have"} no reference: no policy was trained there, no optimum is known and none is stated. Whether they are served is not known.` });
  }
  if (lost) {
    found.push({ kind: "warning", text: `${count(lost)} ${lost === 1 ? "context is" : "contexts are"} served by no source at this tolerance.` });
  }
  found.push(...between(view, answer));
  const left = leftRegret(view);
  if (left) found.push(left);
  return found;
}

/**
 * What is certified about contexts that are not in the table.
 * @param {View} view
 * @param {Answer} answer
 */
function between(view, answer) {
  const { targets } = view.page.header;
  if (!targets.axes.length) return [];
  const certificate = certificateOf(view);
  const items = (certificate?.items ?? []).filter((/** @type {any} */ i) =>
    i.name === "fresh episodes" && i.kind !== "vacuous");
  const { boxes } = view;
  if (!boxes) {
    const known = (view.page.header.certificates ?? []).filter((/** @type {any} */ c) => c.boxes);
    const where = known.length && !certificate
      ? ` Certified are ${known.map((/** @type {any} */ c) => `${c.ask}`).join("; ")}.` : "";
    return [...items.map((/** @type {any} */ { kind, why }) => ({ kind, text: why })),
      { kind: "open", text: `Nothing is said here about contexts between those of the table.${where}` }];
  }
  const share = boxes.shareBy(answer.sources);
  const { kind, sources } = boxes.about;
  if (share === 1) {
    const some = answer.sources.length > sources.length ? `By ${sources.length} of them: ` : "";
    return [{ kind, text: `${some}${boxes.about.why}` }];
  }
  const all = sources.every((/** @type {number} */ s) => answer.sources.includes(s));
  if (all) return [{ kind: "open", text: `Between the contexts of the table: certified on ${percent(share)} of the box. ${boxes.about.why}` }];
  return [{
    kind: "open",
    text: `Between the contexts of the table: with this selection ${percent(share)} of the box is certified${boxes.about.holds ? `; all of it is with the ${sources.length} sources of the method "certified"` : ""}.`,
  }];
}

/**
 * A signed cover compares each policy with its own score; say what regret it leaves.
 * @param {View} view
 */
function leftRegret(view) {
  if (view.layer.about.criterion !== "signed" || !view.isWhole) return null;
  const left = view.cover.worst_regret;
  if (left === undefined || (left !== null && left <= view.epsilon)) return null;
  const size = left === null ? "without bound" : `up to ${number(left)}`;
  return {
    kind: "warning",
    text: `The signed criterion compares each policy with its own score at home: the regret that this cover leaves is ${size}, more than ε. Use regret to deploy.`,
  };
}
