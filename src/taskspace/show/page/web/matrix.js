// A table without contexts: sources against targets, ordered so that like is near like.

import { pixel } from "./boxmap.js";
import { ramp } from "./colours.js";
import { h, isDark, placeCanvas, pointOn, show, showTip, svg } from "./dom.js";
import { number } from "./numbers.js";

/** @typedef {import("./data.js").Page} Page */
/** @typedef {import("./view.js").View} View */
/** @typedef {import("./view.js").Answer} Answer */

/** Losses as an ordered heat map; what lies within ε is set apart from what does not. */
export class MatrixMap {
  /**
   * @param {Page} page
   * @param {{ pick: (target: number) => void, act: (source: number) => void }} on
   */
  constructor(page, on) {
    this.page = page;
    this.canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "Losses of sources at targets. Arrow keys choose a target." });
    this.overlay = svg("svg", { class: "overlay", "aria-hidden": "true" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.plot = h("div", { class: "plot" }, this.canvas, this.overlay, this.tip);
    this.legend = h("div", { class: "legend" });
    this.element = h("div", { class: "map matrix" }, this.plot, this.legend);
    this.rowOrder = page.rowOrder ?? page.rows.map((_, i) => i);
    this.targetOrder = page.targetOrder
      ?? Uint32Array.from({ length: page.header.targets.n }, (_, i) => i);
    /** @type {{ view: View, answer: Answer } | null} */
    this.now = null;
    /** @type {{ margin: any, w: number, height: number } | undefined} as drawn. */
    this.size = undefined;
    const cell = (/** @type {MouseEvent} */ e) => this.cellAt(...pointOn(e, this.canvas, this.size));
    this.canvas.addEventListener("mousemove", (/** @type {MouseEvent} */ e) => this.hover(cell(e), e));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("click", (/** @type {MouseEvent} */ e) => {
      const at = cell(e);
      if (at) on.pick(at.target);
    });
    this.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!by || !this.now) return;
      e.preventDefault();
      const n = this.targetOrder.length;
      const at = this.targetOrder.indexOf(this.now.view.pick);
      on.pick(this.targetOrder[Math.min(n - 1, Math.max(0, at < 0 ? 0 : at + by))]);
    });
    this.canvas.addEventListener("dblclick", (/** @type {MouseEvent} */ e) => {
      const at = cell(e);
      if (at) on.act(at.source);
    });
  }

  /**
   * @param {number} px
   * @param {number} py
   */
  cellAt(px, py) {
    if (!this.size) return null;
    const { w, height } = this.size;
    const i = Math.floor((py / height) * this.rowOrder.length);
    const j = Math.floor((px / w) * this.targetOrder.length);
    if (i < 0 || j < 0 || i >= this.rowOrder.length || j >= this.targetOrder.length) return null;
    const row = this.rowOrder[i];
    return { row, source: this.page.rows[row], target: this.targetOrder[j] };
  }

  /**
   * @param {View} view
   * @param {Answer} answer
   */
  draw(view, answer) {
    this.now = { view, answer };
    const { layer, step } = view;
    const n = { rows: this.rowOrder.length, targets: this.targetOrder.length };
    const names = this.page.header.sources.names;
    const width = this.plot.clientWidth || 600;
    const left = n.rows > 60 ? 40 : Math.min(names ? 170 : 90, width / 3);
    const w = width - left - 14;
    const bottom = this.page.header.targets.names && w / n.targets > 11 ? 96 : 30;
    const height = Math.round(Math.min(620, Math.max(120, n.rows * 22), 0.8 * window.innerHeight));
    const margin = { left, top: 12 };
    this.size = { w, height, margin };
    const zoom = Math.min(2, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(w * zoom);
    this.canvas.height = Math.round(height * zoom);
    placeCanvas(this.plot, this.canvas, this.size, { width, height: height + 12 + bottom });
    const low = this.paint(layer, step, view.epsilon);
    const place = new Map(answer.sources.map((s, i) => [s, i]));
    const parts = [svg("rect", { x: left, y: 12, width: w, height, class: "frame" })];
    const line = height / n.rows;
    this.rowOrder.forEach((/** @type {number} */ row, /** @type {number} */ i) => {
      const source = this.page.rows[row];
      const chosen = place.get(source);
      const y = 12 + (i + 0.5) * line;
      if (chosen !== undefined) {
        parts.push(svg("rect", { x: left - 1, y: 12 + i * line, width: w + 2, height: line, class: "chosen" }));
      }
      if (n.rows <= 60) {
        parts.push(svg("text", {
          x: left - 6, y: y + 4, "text-anchor": "end", class: chosen === undefined ? null : "strong",
        }, shorten(`${chosen === undefined ? "" : `${chosen + 1} · `}${this.page.name("source", source)}`, left / 7)));
      }
    });
    this.targetOrder.forEach((/** @type {number} */ t, /** @type {number} */ j) => {
      const x = left + ((j + 0.5) * w) / n.targets;
      if (t === view.pick) {
        parts.push(svg("rect", { x: left + (j * w) / n.targets, y: 12, width: w / n.targets, height, class: "picked" }));
      }
      if (bottom > 40) {
        parts.push(svg("text", { transform: `translate(${x + 4},${height + 18}) rotate(60)` },
          shorten(this.page.name("target", t), 14)));
      }
    });
    if (n.rows > 60) parts.push(svg("text", { transform: `translate(14,${height / 2}) rotate(-90)`, "text-anchor": "middle", class: "label" }, "sources"));
    if (bottom <= 40) parts.push(svg("text", { x: left + w / 2, y: height + 32, "text-anchor": "middle", class: "label" }, "targets"));
    this.overlay.setAttribute("viewBox", `0 0 ${width} ${height + 12 + bottom}`);
    show(this.overlay, parts);
    show(this.legend, h("span", { class: "ramp" }),
      ` loss from ${number(low)} (light) to ε = ${number(view.epsilon)} (dark); grey is not served. `,
      "Sources and targets that behave alike stand together. Double click takes a source in or out.");
  }

  /**
   * @param {import("./data.js").Layer} layer
   * @param {number} step
   * @param {number} epsilon
   */
  paint(layer, step, epsilon) {
    const { width, height } = this.canvas;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    let low = Infinity;
    for (let r = 0; r < this.rowOrder.length; r += 1) {
      for (let t = 0; t < layer.n; t += 1) {
        if (layer.first[r * layer.n + t] <= step) low = Math.min(low, layer.loss(r, t));
      }
    }
    if (!Number.isFinite(low)) low = epsilon;
    const dark = isDark();
    const out = pixel(dark ? [44, 48, 54] : [222, 222, 222]);
    for (let y = 0; y < height; y += 1) {
      const row = this.rowOrder[Math.floor((y / height) * this.rowOrder.length)];
      for (let x = 0; x < width; x += 1) {
        const t = this.targetOrder[Math.floor((x / width) * this.targetOrder.length)];
        const inside = layer.first[row * layer.n + t] <= step;
        pixels[y * width + x] = inside
          ? pixel(ramp(1 - (layer.loss(row, t) - low) / (epsilon - low || 1))) : out;
      }
    }
    context.putImageData(image, 0, 0);
    return low;
  }

  /**
   * @param {{ row: number, source: number, target: number } | null} at
   * @param {MouseEvent} event
   */
  hover(at, event) {
    if (!at || !this.now || !this.size) {
      this.tip.hidden = true;
      return;
    }
    const { layer, step } = this.now.view;
    const about = layer.isExact ? "" : "≈ ";
    showTip(this, ...pointOn(event, this.canvas, this.size), [h("b", {}, this.page.name("source", at.source)), " at ",
      h("b", {}, this.page.name("target", at.target)), h("br"),
      `loss ${about}${number(layer.loss(at.row, at.target))}, `,
      layer.first[at.row * layer.n + at.target] <= step ? "served" : "not served"]);
  }
}

/**
 * @param {string} text
 * @param {number} length
 */
function shorten(text, length) {
  return text.length > length ? `${text.slice(0, Math.max(1, length - 1))}…` : text;
}
