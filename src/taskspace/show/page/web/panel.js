// One question side by side with another or alone: controls, sentence, map, charts.

import { certificateOf, loadBoxes } from "./boxes.js";
import { CurveChart, ProfileChart } from "./charts.js";
import { ownSource, showDetail } from "./detail.js";
import { coverFile } from "./files.js";
import { download, grid, h, show, svgFile } from "./dom.js";
import { ContextMap } from "./map.js";
import { MatrixMap } from "./matrix.js";
import { count, number, percent } from "./numbers.js";
import { playPart } from "./play.js";
import { readView, writeView } from "./state.js";
import { View } from "./view.js";
import { claims, sentence } from "./words.js";

/** @typedef {import("./data.js").Page} Page */
/** @typedef {import("./view.js").Answer} Answer */

const METHODS = /** @type {Record<string, string>} */ ({
  best: "fewest found", hand: "by hand", certified: "certified between contexts",
});

/** A question, its answer, and the means to change both. */
export class Panel {
  /**
   * @param {Page} page
   * @param {string} prefix of its part of the address.
   * @param {() => void} onChange told when the address should follow.
   */
  constructor(page, prefix, onChange) {
    this.page = page;
    this.prefix = prefix;
    this.onChange = onChange;
    /** @type {View} */
    this.view = /** @type {any} */ (null);
    /** @type {Answer | null} */
    this.answer = null;
    this.turn = 0;
    this.drawn = 0;
    /** @type {{ key: string, element: any } | null} */
    this.stage = null;
    const on = {
      pick: (/** @type {number} */ t) => { this.view.pick = t; this.update(); },
      act: (/** @type {number} */ t) => this.act(t),
    };
    const hasAxes = page.header.targets.axes.length > 0;
    this.shown = {
      mode: "who", source: -1,
      map: /** @type {any} */ (hasAxes ? new ContextMap(page, on) : new MatrixMap(page, {
        pick: on.pick, act: (s) => this.toggle(s),
      })),
    };
    this.profile = new ProfileChart((step) => { this.view.step = step; this.update(); });
    this.curve = new CurveChart((budget) => { this.view.budget = budget; this.update(); });
    this.build(hasAxes);
  }

  /** @param {boolean} hasAxes */
  build(hasAxes) {
    const { layers } = this.page.header;
    this.question = h("select", {
      class: "question", "aria-label": "Question", disabled: layers.length < 2,
      onchange: () => this.setLayer(this.question.value),
    }, layers.map((/** @type {any} */ l) => h("option", { value: l.key }, l.label)));
    this.slider = h("input", {
      type: "range", min: 0, class: "epsilon", "aria-label": "Tolerance ε",
      oninput: () => { this.view.step = Number(this.slider.value); this.update(); },
    });
    this.number = h("input", {
      type: "number", step: "any", class: "epsilon-number", "aria-label": "Tolerance ε, typed",
      onchange: () => { this.view.setEpsilon(Number(this.number.value)); this.update(); },
    });
    this.method = h("select", {
      class: "method", "aria-label": "Method",
      onchange: () => this.setMethod(this.method.value),
    });
    this.mode = h("select", {
      class: "mode", "aria-label": "Colours of the map",
      onchange: () => this.setMode(this.mode.value),
    }, h("option", { value: "who" }, "who serves"), h("option", { value: "loss" }, "loss left"),
    h("option", { value: "source" }, "one source"),
    this.page.header.certificates ? h("option", { value: "boxes" }, "certified boxes") : null);
    this.sentence = h("p", { class: "sentence", "aria-live": "polite" });
    this.claims = h("ul", { class: "claims" });
    this.detail = h("section", { class: "detail" });
    this.table = h("section", { class: "selected" });
    this.element = h("section", { class: "panel" },
      this.sentence, this.claims,
      h("div", { class: "controls" },
        h("label", {}, "question ", this.question),
        h("label", { class: "wide" }, "ε ", this.slider, this.number),
        h("label", {}, "method ", this.method),
        hasAxes ? h("label", {}, "colours ", this.mode) : null),
      h("div", { class: "pictures" },
        this.shown.map.element,
        h("div", { class: "side" }, this.profile.element, this.curve.element)),
      h("div", { class: "below" }, this.detail, this.table),
      h("p", { class: "actions" },
        h("button", { type: "button", class: "save-cover", onclick: () => this.saveCover() }, "Download the cover"),
        h("button", { type: "button", class: "save-figure", onclick: () => this.saveFigure() }, "Download the figure"),
        h("button", { type: "button", class: "copy", onclick: () => this.copy() }, "Copy the command"),
        this.commandLine = h("code", { class: "command" })));
  }

  /**
   * @param {string} key
   * @param {URLSearchParams} [from] an address to restore.
   */
  async setLayer(key, from) {
    const known = this.page.header.layers.map((/** @type {any} */ l) => l.key);
    const layer = await this.page.layer(known.includes(key) ? key : known[0]);
    const old = this.view;
    this.view = new View(this.page, layer);
    if (old && !from) {
      const { criterion: was } = old.layer.about;
      Object.assign(this.view, {
        method: old.method, hand: old.hand, pick: old.pick, budget: old.budget,
      });
      if (was === layer.about.criterion) this.view.setEpsilon(old.epsilon);
    }
    if (from) readView(this.view, this.shown, this.prefix, from);
    await this.update();
  }

  /** @param {string} method */
  setMethod(method) {
    if (method === "hand") this.view.hand = [...this.view.sources];
    this.view.method = method;
    this.view.budget = null;
    this.update();
  }

  /** @param {string} mode what the map shows. */
  setMode(mode) {
    this.shown.mode = mode;
    const has = (/** @type {any} */ s) => s.covers.some((/** @type {any} */ c) => c.record.method === "certified");
    if (mode === "boxes") {
      // Boxes are certified for their own sources, at the tolerance that was asked for.
      const { steps } = this.view.layer.about;
      if (!has(this.view.about)) this.view.step = Math.max(0, steps.findIndex(has));
      if (has(this.view.about) && this.view.method !== "hand") this.setMethod("certified");
    }
    this.update();
  }

  /** @param {number} target take the source of a context in or out. */
  act(target) {
    this.view.pick = target;
    const own = ownSource(this.view, target);
    if (own >= 0 && this.page.rowOf.has(own)) this.toggle(own);
    else this.update();
  }

  /** @param {number} source */
  toggle(source) {
    if (!this.view.isHere) return;
    this.view.toggle(source);
    this.update();
  }

  async update() {
    this.turn += 1;
    const { turn } = this;
    const began = performance.now();
    const [answer, boxes] = await Promise.all([
      this.view.answer(), loadBoxes(this.page, certificateOf(this.view))]);
    if (turn !== this.turn) return;
    this.answer = answer;
    this.view.boxes = boxes;
    this.draw();
    this.drawn = turn;
    performance.measure("redraw", { start: began, end: performance.now() });
    this.onChange();
  }

  draw() {
    const { view, shown } = this;
    const answer = /** @type {Answer} */ (this.answer);
    const { about } = view.layer;
    this.question.value = about.key;
    this.slider.max = String(about.steps.length - 1);
    this.slider.value = String(view.step);
    this.slider.setAttribute("aria-valuetext", `ε = ${number(view.epsilon)}`);
    this.number.value = String(view.epsilon);
    const methods = ["best", ...new Set(view.about.covers.map((/** @type {any} */ c) => c.record.method)), "hand"];
    show(this.method, methods.map((m) => h("option", { value: m }, METHODS[m] ?? m)));
    this.method.value = methods.includes(view.method) ? view.method : "best";
    if (shown.mode === "boxes" && !this.page.header.certificates) shown.mode = "who";
    this.mode.value = shown.mode;
    // At a tolerance without certificate there are no boxes to show.
    const mode = shown.mode === "boxes" && !view.boxes ? "who" : shown.mode;
    if (shown.mode === "source" && !this.page.rowOf.has(shown.source)) {
      shown.source = answer.sources.find((s) => this.page.rowOf.has(s)) ?? this.page.rows[0];
    }
    const [strong, rest] = sentence(view, answer);
    show(this.sentence, h("b", { class: "size" }, strong), " ", rest);
    show(this.claims, claims(view, answer).map(({ kind, text }) =>
      h("li", {}, h("span", { class: `badge ${kind}` }, kind), " ", text)));
    shown.map.draw(view, answer, mode, shown.source);
    this.profile.draw(view);
    this.curve.draw(view, answer);
    showDetail(this.detail, view, answer, {
      toggle: (s) => this.toggle(s),
      only: (s) => { Object.assign(shown, { mode: "source", source: s }); this.update(); },
      play: this.page.header.play ? (s, t) => this.play(s, t) : null,
    });
    this.drawTable(answer);
    this.commandLine.textContent = this.command();
  }

  /**
   * The stage of a pair; one that is running goes on while the rest is drawn anew.
   * @param {number} source
   * @param {number} target
   */
  play(source, target) {
    const key = `${this.view.layer.about.key} ${source} ${target}`;
    if (this.stage?.key !== key) this.stage = { key, element: playPart(this.view, source, target) };
    return this.stage.element;
  }

  /** @param {Answer} answer */
  drawTable(answer) {
    const { view } = this;
    const rows = answer.sources.slice(0, 200).map((source, place) => {
      const size = view.setSize(source);
      return [String(place + 1), this.page.name("source", source), count(answer.counts[place]),
        size === null ? "–" : count(size), ...this.page.gainsOf(source),
        view.isHere ? h("button", { type: "button", class: "small remove", onclick: () => this.toggle(source) }, "take out") : ""];
    });
    show(this.table, h("h3", {}, "Selected sources"),
      grid(["", "source", "is given", "could serve", ...this.page.gainNames, ""], rows, "Selected sources"),
      answer.sources.length > 200 ? h("p", { class: "hint" }, `… and ${answer.sources.length - 200} more.`) : null,
      h("p", { class: "hint" }, `Each context is given to the selected source of least loss. ${percent(answer.served / view.layer.n)} are served.`));
  }

  /** The command that answers this view. */
  command() {
    const { path } = this.page.header.about;
    const { view } = this;
    if (view.method === "hand") return `taskspace verify cover.json ${path}`;
    // A cover that was found at a tighter tolerance is not what its method finds here.
    const { method: found, stop_reason: why } = view.cover.record;
    const method = why.startsWith("found at epsilon") ? "minimum" : found;
    const asked = `--ask '${view.about.ask}'`;
    if (method === "certified") return `taskspace certify ${path} ${asked}`;
    const budget = view.isWhole ? "" : ` --budget ${view.budget}`;
    return `taskspace cover ${path} ${asked} --method ${method}${budget}`;
  }

  copy() {
    navigator.clipboard?.writeText(this.command());
  }

  async saveCover() {
    const text = await coverFile(this.view, /** @type {Answer} */ (this.answer));
    download("cover.json", "application/json", text);
  }

  saveFigure() {
    download("map.svg", "image/svg+xml", svgFile(this.shown.map));
  }

  /** @param {URLSearchParams} into */
  write(into) {
    writeView(this.view, this.shown, this.prefix, into);
  }
}
