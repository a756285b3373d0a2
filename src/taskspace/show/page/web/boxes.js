// Certified boxes: what is proven between the targets of the table.
//
// Each box was certified for one source, so it stays certified in every selection
// that has this source.

import { h } from "./dom.js";
import { number } from "./numbers.js";

/** @typedef {import("./data.js").Page} Page */
/** @typedef {import("./view.js").View} View */

const CERTIFIED = 0;
const UNCOVERED = 2;

/** The boxes of one certificate. */
export class Boxes {
  /**
   * @param {any} about
   * @param {Float64Array[]} arrays lower and upper corners axis by axis, bounds, shares.
   * @param {Uint8Array} status
   * @param {Uint16Array} who place of each box's source among those of the certificate.
   */
  constructor(about, [low, high, bound, share], status, who) {
    this.about = about;
    this.low = low;
    this.high = high;
    this.bound = bound;
    this.share = share;
    this.status = status;
    this.who = who;
  }

  /** @param {number} box number of the source in the table, −1 where not certified. */
  sourceOf(box) {
    return this.status[box] === CERTIFIED ? this.about.sources[this.who[box]] : -1;
  }

  /** @param {number} box whether every selected source of the certificate fails in it. */
  isUncovered(box) {
    return this.status[box] === UNCOVERED;
  }

  /**
   * Share of the whole box that is certified with these sources.
   * @param {number[]} sources
   */
  shareBy(sources) {
    const chosen = new Set(sources);
    let sum = 0;
    let all = true;
    for (let box = 0; box < this.about.n; box += 1) {
      if (chosen.has(this.sourceOf(box))) sum += this.share[box];
      else all = false;
    }
    return all ? 1 : Math.min(sum, 1 - 1e-12);
  }

  /**
   * The box that speaks of a context: one that is certified with these sources, of
   * those the one with the least bound; otherwise any that holds it; −1 for none.
   * @param {number[]} at value on each axis of the boxes; NaN for any value.
   * @param {number[]} sources
   */
  find(at, sources) {
    const { n } = this.about;
    const chosen = new Set(sources);
    let found = -1;
    let best = Infinity;
    for (let box = 0; box < n; box += 1) {
      let inside = true;
      for (let a = 0; a < at.length && inside; a += 1) {
        inside = !(at[a] < this.low[a * n + box] || at[a] > this.high[a * n + box]);
      }
      if (!inside) continue;
      const mine = chosen.has(this.sourceOf(box));
      if (mine && this.bound[box] < best) [found, best] = [box, this.bound[box]];
      else if (found < 0) found = box;
    }
    return found;
  }

  /** @param {Map<string, number>} context values by name; @returns their order here. */
  placeOf(context) {
    return this.about.names.map((/** @type {string} */ name) => context.get(name) ?? NaN);
  }

  /** @param {number} box its edges as `[name, low, high]`. */
  edges(box) {
    const { names, n } = this.about;
    return names.map((/** @type {string} */ name, /** @type {number} */ a) =>
      /** @type {[string, number, number]} */ ([name, this.low[a * n + box], this.high[a * n + box]]));
  }
}

/**
 * The certificate of a view, null where its question was not certified.
 * @param {View} view
 */
export function certificateOf(view) {
  const { certificates } = view.page.header;
  return certificates?.find((/** @type {any} */ c) =>
    c.key === view.layer.about.key && c.epsilon === view.epsilon) ?? null;
}

/**
 * @param {Page} page
 * @param {any} certificate
 * @returns {Promise<Boxes | null>}
 */
export async function loadBoxes(page, certificate) {
  const about = certificate?.boxes;
  if (!about) return null;
  const get = (/** @type {string} */ name) => page.arrays.get(about[name]);
  const [low, high, bound, share, status, who] = await Promise.all(
    ["low", "high", "bound", "share", "status", "who"].map(get));
  return new Boxes(about, [low, high, bound, share], status, who);
}

/**
 * What is certified about a context, in words.
 * @param {View} view
 * @param {import("./view.js").Answer} answer
 * @param {Map<string, number>} context
 */
export function boxWords(view, answer, context) {
  const { boxes } = view;
  const box = boxes ? boxes.find(boxes.placeOf(context), answer.sources) : -1;
  if (!boxes || box < 0) return "Outside of what was certified.";
  const edges = boxes.edges(box).map((/** @type {[string, number, number]} */ [name, low, high]) => `${name} ${number(low, 5)} … ${number(high, 5)}`).join(", ");
  const source = boxes.sourceOf(box);
  const place = answer.sources.indexOf(source);
  const badge = h("span", { class: `badge ${boxes.about.kind}` }, boxes.about.kind);
  if (place >= 0) {
    return [badge, ` Source ${place + 1} (${view.page.name("source", source)}) serves every context of the box ${edges} with a loss of at most ${number(boxes.bound[box], 4)}.`];
  }
  if (source >= 0) {
    return [h("span", { class: "badge open" }, "open"), ` The box ${edges} is certified for another source (${view.page.name("source", source)}), which is not selected.`];
  }
  return [h("span", { class: "badge open" }, "open"), boxes.isUncovered(box)
    ? ` In the box ${edges} there is a context that no source of the certificate serves.`
    : ` Nothing is certified on the box ${edges}.`];
}
