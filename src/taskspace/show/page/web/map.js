// The map: who serves whom over the context space, cell by cell.

import { drawBoxes, pixel } from "./boxmap.js";
import { boxWords } from "./boxes.js";
import { colour, colourSources, neighbours, ramp, rgb } from "./colours.js";
import { h, isDark, placeCanvas, pointOn, show, showTip, svg } from "./dom.js";
import { axisMarks, boxMark, hasDots, pickMark, regionMarks, sourceMarks, trainedMarks } from "./marks.js";
import { cellOfPixel, number, scale } from "./numbers.js";

/** @typedef {import("./data.js").Page} Page */
/** @typedef {import("./view.js").View} View */
/** @typedef {import("./view.js").Answer} Answer */

const MARGIN = { left: 58, right: 14, top: 12, bottom: 46 };
const PHONE_MARGIN = { left: 44, right: 12, top: 12, bottom: 42 };

/** Who serves whom, over one axis, two, or a slice of more. */
export class ContextMap {
  /**
   * @param {Page} page
   * @param {{ pick: (target: number) => void, act: (target: number) => void }} on
   */
  constructor(page, on) {
    this.page = page;
    this.on = on;
    const { axes, is_grid: isGrid } = page.header.targets;
    this.axes = axes;
    this.isGrid = isGrid;
    this.x = 0;
    this.y = axes.length > 1 ? 1 : -1;
    /** @type {number[]} place on each axis that is not shown. */
    this.slice = axes.map((/** @type {any} */ a) => (a.values ? a.values.length >> 1 : 0));
    this.canvas = h("canvas", {
      tabindex: 0, role: "img",
      "aria-label": "Map of who serves whom. Arrow keys move, Enter takes a source in or out.",
    });
    this.overlay = svg("svg", { class: "overlay", "aria-hidden": "true" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.plot = h("div", { class: "plot" }, this.canvas, this.overlay, this.tip);
    this.slices = h("div", { class: "slices" });
    this.legend = h("div", { class: "legend" });
    this.element = h("div", { class: "map" }, this.slices, this.plot, this.legend);
    /** @type {{ view: View, answer: Answer, mode: string, source: number } | null} */
    this.now = null;
    /** @type {{ margin: any, w: number, height: number } | undefined} as drawn. */
    this.size = undefined;
    /** @type {Int32Array} colour number of each place. */
    this.colours = new Int32Array(0);
    this.listen();
    this.drawSlices();
  }

  listen() {
    const point = (/** @type {MouseEvent} */ e) => pointOn(e, this.canvas, this.size);
    const target = (/** @type {MouseEvent} */ e) => this.targetAt(...point(e));
    this.canvas.addEventListener("mousemove", (/** @type {MouseEvent} */ e) => {
      this.hover(target(e), ...point(e));
    });
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("click", (/** @type {MouseEvent} */ e) => {
      const t = target(e);
      if (t >= 0) this.on.pick(t);
    });
    this.canvas.addEventListener("dblclick", (/** @type {MouseEvent} */ e) => {
      const t = target(e);
      if (t >= 0) this.on.act(t);
    });
    this.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => this.key(e));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!this.now || !this.isGrid) return;
    const { pick } = this.now.view;
    if (event.key === "Enter" && pick >= 0) {
      this.on.act(pick);
      event.preventDefault();
      return;
    }
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[
      event.key];
    if (!move) return;
    event.preventDefault();
    const at = pick < 0 ? [...this.slice] : this.places(pick);
    const step = (/** @type {number} */ axis, /** @type {number} */ by) => {
      if (axis < 0) return;
      const n = this.axes[axis].values.length;
      at[axis] = Math.min(n - 1, Math.max(0, at[axis] + by));
    };
    step(this.x, move[0]);
    step(this.y, move[1]);
    this.on.pick(this.index(at));
  }

  /** @param {number} target its place on each axis of the grid. */
  places(target) {
    const at = new Array(this.axes.length);
    let rest = target;
    for (let a = this.axes.length - 1; a >= 0; a -= 1) {
      const n = this.axes[a].values.length;
      at[a] = rest % n;
      rest = Math.floor(rest / n);
    }
    return at;
  }

  /** @param {number[]} at place on each axis. */
  index(at) {
    return at.reduce((sum, place, a) => sum * this.axes[a].values.length + place, 0);
  }

  drawSlices() {
    if (this.axes.length <= 2) return;
    const choose = (/** @type {string} */ name) => h("select", {
      "aria-label": `${name} axis`,
      onchange: (/** @type {any} */ e) => {
        const chosen = Number(e.target.value);
        const other = name === "x" ? "y" : "x";
        const me = /** @type {any} */ (this);
        if (chosen === me[other]) me[other] = me[name];
        me[name] = chosen;
        this.drawSlices();
        this.redraw();
      },
    }, this.axes.map((/** @type {any} */ axis, /** @type {number} */ i) =>
      h("option", { value: i, selected: i === /** @type {any} */ (this)[name] }, axis.label)));
    const rest = this.axes.map((/** @type {any} */ axis, /** @type {number} */ i) => {
      if (i === this.x || i === this.y || !axis.values) return null;
      const value = h("output", {}, number(axis.values[this.slice[i]]));
      return h("label", {}, `${axis.label} `, h("input", {
        type: "range", min: 0, max: axis.values.length - 1, value: this.slice[i],
        "data-axis": axis.name,
        oninput: (/** @type {any} */ e) => {
          this.slice[i] = Number(e.target.value);
          value.textContent = number(axis.values[this.slice[i]]);
          this.redraw();
        },
      }), value);
    });
    show(this.slices, h("label", {}, "across ", choose("x")), h("label", {}, "up ", choose("y")),
      rest);
  }

  redraw() {
    if (this.now) this.draw(this.now.view, this.now.answer, this.now.mode, this.now.source);
  }

  /**
   * @param {View} view
   * @param {Answer} answer
   * @param {string} mode `who`, `loss`, `source` or `boxes`.
   * @param {number} source whose tolerance set `source` shows.
   */
  draw(view, answer, mode, source) {
    this.now = { view, answer, mode, source };
    const width = this.plot.clientWidth || 600;
    const margin = width < 480 ? PHONE_MARGIN : MARGIN;
    const w = Math.max(50, width - margin.left - margin.right);
    // The whole map is seen on the first screen, below the answer.
    const height = this.y < 0 ? 70
      : Math.max(60, Math.round(Math.min(w, Math.max(320, 0.6 * window.innerHeight), 620)));
    this.size = { margin, w, height };
    const zoom = Math.min(2, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(w * zoom);
    this.canvas.height = Math.round(height * zoom);
    placeCanvas(this.plot, this.canvas, this.size, {
      width: w + margin.left + margin.right, height: height + margin.top + margin.bottom,
    });
    this.xScale = scale(this.axes[this.x].low, this.axes[this.x].high, this.axes[this.x].scale,
      w < 400 ? 4 : 7);
    this.yScale = this.y < 0 ? scale(0, 1, "linear")
      : scale(this.axes[this.y].low, this.axes[this.y].high, this.axes[this.y].scale, 7);
    const shape = this.isGrid ? this.axes.map((/** @type {any} */ a) => a.values.length) : null;
    this.colours = this.coloursOf(answer.who, shape, answer.sources.length);
    if (mode === "boxes" && view.boxes) this.colours = drawBoxes(this, view.boxes);
    else if (this.isGrid) this.drawCells();
    else this.drawPoints();
    this.drawOverlay();
    this.drawLegend();
  }

  /**
   * A colour number for each source; all differ where targets are not on a grid.
   * @param {Int32Array} who
   * @param {number[] | null} shape
   * @param {number} n
   */
  coloursOf(who, shape, n) {
    return shape ? colourSources(neighbours(who, shape, n)) : Int32Array.from({ length: n }, (_, i) => i);
  }

  /** Colour of each target as a pixel, as a function of its number. */
  painter() {
    const { view: { layer, step, epsilon }, answer, mode } = /** @type {any} */ (this.now);
    const dark = isDark();
    const bare = pixel(dark ? [38, 42, 48] : [250, 250, 250]);
    const hatch = pixel(dark ? [120, 126, 134] : [150, 150, 150]);
    const shades = new Uint32Array(answer.sources.length);
    for (let i = 0; i < shades.length; i += 1) shades[i] = pixel(rgb(colour(this.colours[i])));
    const empty = (/** @type {number} */ t, /** @type {number} */ x, /** @type {number} */ y) =>
      ((x + y) % 9 < 2 || (layer.reach[t] > step && (x - y + 9000) % 9 < 2) ? hatch : bare);
    if (mode === "who") {
      return (/** @type {number} */ t, /** @type {number} */ x, /** @type {number} */ y) => {
        const place = answer.who[t];
        return place < 0 ? empty(t, x, y) : shades[place];
      };
    }
    const rowOf = this.rowsShown();
    const table = new Uint32Array(256);
    for (let i = 0; i < 256; i += 1) table[i] = pixel(ramp(1 - i / 255));
    const low = this.lossRange?.[0] ?? 0;
    const span = epsilon - low || 1;
    return (/** @type {number} */ t, /** @type {number} */ x, /** @type {number} */ y) => {
      const row = rowOf(t);
      if (row === undefined || layer.first[row * layer.n + t] > step) return empty(t, x, y);
      const share = (layer.loss(row, t) - low) / span;
      return table[Math.max(0, Math.min(255, Math.round(255 * share)))];
    };
  }

  drawCells() {
    const { answer, mode } = /** @type {any} */ (this.now);
    const { width, height } = this.canvas;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const strides = new Array(this.axes.length).fill(1);
    for (let a = this.axes.length - 2; a >= 0; a -= 1) {
      strides[a] = strides[a + 1] * this.axes[a + 1].values.length;
    }
    let base = 0;
    this.axes.forEach((/** @type {any} */ _, /** @type {number} */ a) => {
      if (a !== this.x && a !== this.y) base += this.slice[a] * strides[a];
    });
    const across = cellOfPixel(this.axes[this.x].values, /** @type {any} */ (this.xScale), width);
    const up = this.y < 0 ? new Int32Array(height)
      : cellOfPixel(this.axes[this.y].values, /** @type {any} */ (this.yScale), height);
    if (mode !== "who") this.findRange();
    const paint = this.painter();
    const line = pixel(isDark() ? [22, 24, 28] : [255, 255, 255]);
    const dot = pixel([0, 0, 0]);
    const unsure = this.uncertain();
    const { who } = answer;
    const thick = Math.max(1, Math.round(width / 600));
    for (let y = 0; y < height; y += 1) {
      const row = base + (this.y < 0 ? 0 : up[height - 1 - y] * strides[this.y]);
      const above = y < thick ? row
        : base + (this.y < 0 ? 0 : up[height - 1 - y + thick] * strides[this.y]);
      const o = y * width;
      for (let x = 0; x < width; x += 1) {
        const t = row + across[x] * strides[this.x];
        const left = x < thick ? t : row + across[x - thick] * strides[this.x];
        const over = above + across[x] * strides[this.x];
        pixels[o + x] = who[t] !== who[left] || who[t] !== who[over] ? line : paint(t, x, y);
        if (unsure && x % 5 < 2 && y % 5 < 2 && unsure[t]) pixels[o + x] = dot;
      }
    }
    context.putImageData(image, 0, 0);
  }

  /**
   * The value that the picture has on an axis of boxes that is not drawn, NaN for any.
   * @param {string} name
   */
  sliceValue(name) {
    const a = this.axes.findIndex((/** @type {any} */ axis) => axis.name === name);
    if (a < 0 || a === this.x || a === this.y || !this.axes[a].values) return NaN;
    return this.axes[a].values[this.slice[a]];
  }

  /** The row of the source whose loss is shown, as a function of the target. */
  rowsShown() {
    const { answer, mode, source } = /** @type {any} */ (this.now);
    const rows = answer.sources.map((/** @type {number} */ s) => this.page.rowOf.get(s));
    const only = this.page.rowOf.get(source);
    return (/** @type {number} */ t) => (mode === "source" ? only : rows[answer.who[t]]);
  }

  findRange() {
    const { layer, step, epsilon } = /** @type {any} */ (this.now).view;
    const rowOf = this.rowsShown();
    let low = Infinity;
    for (let t = 0; t < layer.n; t += 1) {
      const row = rowOf(t);
      if (row !== undefined && layer.first[row * layer.n + t] <= step) low = Math.min(low, layer.loss(row, t));
    }
    this.lossRange = [Number.isFinite(low) ? low : 0, epsilon];
  }

  /** Targets whose membership lies within two standard errors, null if not sampled. */
  uncertain() {
    const { view: { layer, epsilon }, mode } = /** @type {any} */ (this.now);
    if (!layer.error || mode === "source") return null;
    const unsure = new Uint8Array(layer.n);
    const rowOf = this.rowsShown();
    for (let t = 0; t < layer.n; t += 1) {
      const row = rowOf(t);
      if (row === undefined) continue;
      const margin = Math.abs(epsilon - layer.loss(row, t));
      if (margin < 2 * layer.error[row * layer.n + t]) unsure[t] = 1;
    }
    return unsure;
  }

  drawPoints() {
    const { w, height } = /** @type {any} */ (this.size);
    const context = this.canvas.getContext("2d");
    const zoom = this.canvas.width / w;
    context.setTransform(zoom, 0, 0, zoom, 0, 0);
    context.clearRect(0, 0, w, height);
    const { answer, mode } = /** @type {any} */ (this.now);
    if (mode !== "who") this.findRange();
    const paint = this.painter();
    const size = Math.max(2, Math.min(8, 90 / Math.sqrt(answer.who.length)));
    for (let t = 0; t < answer.who.length; t += 1) {
      const [x, y] = this.positionOf(t);
      const p = paint(t, 100, 103);
      context.beginPath();
      context.arc(x, y, size, 0, 7);
      context.fillStyle = `rgb(${p & 255},${(p >> 8) & 255},${(p >> 16) & 255})`;
      context.fill();
      context.strokeStyle = answer.who[t] < 0 ? "#d00000" : "rgba(0,0,0,.35)";
      context.lineWidth = answer.who[t] < 0 ? 1.5 : 0.6;
      context.stroke();
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  /**
   * Where a context lies, in pixels of the canvas.
   * @param {number} t
   * @param {"source" | "target"} [side]
   * @returns {[number, number]}
   */
  positionOf(t, side = "target") {
    const { w, height } = /** @type {any} */ (this.size);
    const all = /** @type {Float64Array} */ (
      side === "target" ? this.page.targetContexts : this.page.sourceContexts);
    const { axes } = this.page.header[`${side}s`];
    const of = (/** @type {number} */ a) => {
      const place = axes.findIndex((/** @type {any} */ x) => x.name === this.axes[a].name);
      return place < 0 ? NaN : all[t * axes.length + place];
    };
    const x = /** @type {any} */ (this.xScale).at(of(this.x)) * w;
    if (this.y < 0) return [x, height / 2];
    return [x, (1 - /** @type {any} */ (this.yScale).at(of(this.y))) * height];
  }

  /**
   * The target at a place of the canvas, −1 for none.
   * @param {number} px
   * @param {number} py
   */
  targetAt(px, py) {
    if (!this.size || !this.now) return -1;
    const { w, height } = this.size;
    if (px < 0 || py < 0 || px >= w || py >= height) return -1;
    if (!this.isGrid) {
      let best = -1;
      let least = 144;
      for (let t = 0; t < this.now.answer.who.length; t += 1) {
        const [x, y] = this.positionOf(t);
        const d = (x - px) ** 2 + (y - py) ** 2;
        if (d < least) [best, least] = [t, d];
      }
      return best;
    }
    const place = (/** @type {number} */ axis, /** @type {any} */ along, /** @type {number} */ at) => {
      const { values } = this.axes[axis];
      return cellOfPixel(values, along, 4096)[Math.min(4095, Math.floor(at * 4096))];
    };
    const at = [...this.slice];
    at[this.x] = place(this.x, this.xScale, px / w);
    if (this.y >= 0) at[this.y] = place(this.y, this.yScale, 1 - (py + 0.5) / height);
    return this.index(at);
  }

  /**
   * @param {number} t
   * @param {number} px
   * @param {number} py
   */
  hover(t, px, py) {
    if (t < 0 || !this.now || !this.size) {
      this.tip.hidden = true;
      return;
    }
    const { view, answer, mode } = this.now;
    if (mode === "boxes" && view.boxes) {
      showTip(this, px, py, boxWords(view, answer, this.contextAt(px, py)));
      return;
    }
    const place = answer.who[t];
    const loss = place < 0 ? null : view.loss(answer.sources[place], t);
    const about = view.layer.isExact ? "" : "≈ ";
    showTip(this, px, py, [h("b", {}, this.page.name("target", t)), h("br"),
      place < 0
        ? (view.layer.reach[t] > view.step ? "no source serves it" : "not served by this selection")
        : `served by ${place + 1}${loss === null ? "" : `, loss ${about}${number(loss)}`}`]);
  }

  /**
   * The context at a place of the canvas, by the names of its axes.
   * @param {number} px
   * @param {number} py
   */
  contextAt(px, py) {
    const { w, height } = /** @type {any} */ (this.size);
    /** @type {Map<string, number>} */
    const at = new Map();
    this.axes.forEach((/** @type {any} */ axis) => at.set(axis.name, this.sliceValue(axis.name)));
    at.set(this.axes[this.x].name, /** @type {any} */ (this.xScale).value(px / w));
    if (this.y >= 0) {
      at.set(this.axes[this.y].name, /** @type {any} */ (this.yScale).value(1 - py / height));
    }
    return at;
  }

  drawOverlay() {
    const { margin, w, height } = /** @type {any} */ (this.size);
    this.overlay.setAttribute("viewBox",
      `0 0 ${w + margin.left + margin.right} ${height + margin.top + margin.bottom}`);
    show(this.overlay, axisMarks(this), regionMarks(this), trainedMarks(this), sourceMarks(this), boxMark(this),
      pickMark(this));
  }

  drawLegend() {
    const { view, answer, mode } = /** @type {any} */ (this.now);
    const n = view.layer.n;
    const missing = n - answer.served;
    const parts = [];
    if (mode === "who") parts.push(h("span", {}, "A colour and a number for each source; the circle is where it was trained."));
    else if (mode === "boxes") {
      parts.push(h("span", {}, "Each box of contexts in the colour of the source that is certified to serve all of it."));
      if (view.boxes && view.boxes.shareBy(answer.sources) < 1) {
        parts.push(h("span", {}, h("span", { class: "dots" }), " not certified with this selection"));
      }
    } else {
      parts.push(h("span", { class: "ramp" }),
        ` loss from ${number(/** @type {any} */ (this.lossRange)[0])} (light) to ε = ${number(view.epsilon)} (dark)`);
    }
    if (this.axes.length > 2) parts.push(h("span", {}, "Dashed circles lie in other slices."));
    if (hasDots(this.page)) {
      parts.push(h("span", {}, "A dot where a policy was trained."));
      if (this.page.header.selection?.sources.some((/** @type {any} */ s) => s.region.length)) {
        parts.push(h("span", {}, "Dashed borders: what a source was trained on, where that is a region."));
      }
    }
    if (mode === "boxes") {
      show(this.legend, parts);
      return;
    }
    if (missing > view.about.n_uncoverable) {
      parts.push(h("span", {}, h("span", { class: "hatch" }), " not served by this selection"));
    }
    if (view.about.n_uncoverable) {
      const lacking = view.layer.about.n_without_reference ? ", or without a reference" : "";
      parts.push(h("span", {}, h("span", { class: "hatch cross" }), ` served by no source of the table${lacking}`));
    }
    const unsure = this.isGrid ? this.uncertain() : null;
    if (unsure) {
      const n_unsure = unsure.reduce((a, b) => a + b, 0);
      if (n_unsure) parts.push(h("span", {}, h("span", { class: "dots" }), ` within 2 standard errors of ε: ${n_unsure}`));
    }
    show(this.legend, parts);
  }
}
