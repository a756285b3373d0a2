// The page of a policy library: its map, margins, guarantee and contract.

import { pixel } from "./boxmap.js";
import { colour, colourSources, ink, neighbours, ramp, rgb } from "./colours.js";
import { download, grid, h, isDark, placeCanvas, pointOn, show, svg } from "./dom.js";
import { ending, followWindow, heading, part, setFragment, themeButton } from "./frame.js";
import { axisMarks } from "./marks.js";
import { count, number, percent, scale } from "./numbers.js";
import { openShelf, Shelf } from "./shelf.js";

const MARGINS = { left: 58, right: 14, top: 12, bottom: 46 };
const MAX_NODES = 2500;
const STATUS_WORDS = /** @type {Record<string, string>} */ ({
  guaranteed: "the guarantee speaks of this very context",
  estimated: "an estimate says that the policy serves this very context; nothing is guaranteed",
  inside: "inside the range, but nothing is known of this very context",
  outside: "outside of the range: the policy of the nearest context inside",
  failing: "no policy serves this very context; the one that loses least is used",
  refused: "no policy",
});

/** The map of a library, over one axis, two, or a slice of more. */
class LibraryMap {
  /**
   * @param {Shelf} shelf
   * @param {(row: number[]) => void} onPick
   */
  constructor(shelf, onPick) {
    this.shelf = shelf;
    const { about } = shelf;
    this.axes = about.names.map((/** @type {string} */ name, /** @type {number} */ a) => ({
      name, label: about.labels[a], low: about.low[a], high: about.high[a],
    }));
    this.x = 0;
    this.y = this.axes.length > 1 ? 1 : -1;
    this.row = about.low.map((/** @type {number} */ v, /** @type {number} */ a) => v / 2 + about.high[a] / 2);
    this.mode = "who";
    this.canvas = h("canvas", {
      tabindex: 0, role: "img", "aria-label": "Map of the library. Arrow keys move the context.",
    });
    this.overlay = svg("svg", { class: "overlay", "aria-hidden": "true" });
    this.plot = h("div", { class: "plot" }, this.canvas, this.overlay);
    this.legend = h("div", { class: "legend" });
    this.slices = h("div", { class: "slices" });
    this.element = h("div", { class: "map" }, this.slices, this.plot, this.legend);
    this.onPick = onPick;
    /** @type {{ margin: any, w: number, height: number } | undefined} as drawn. */
    this.size = undefined;
    this.canvas.addEventListener("click", (/** @type {MouseEvent} */ e) => this.pickAt(...pointOn(e, this.canvas, this.size)));
    this.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => this.key(e));
    this.drawSlices();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const row = [...this.row];
    [this.x, this.y].forEach((a, i) => {
      if (a < 0) return;
      const { low, high } = this.axes[a];
      row[a] = Math.min(high, Math.max(low, row[a] + (move[i] * (high - low)) / 100));
    });
    this.onPick(row);
  }

  /**
   * @param {number} px
   * @param {number} py
   */
  pickAt(px, py) {
    if (!this.size) return;
    const { w, height } = this.size;
    const row = [...this.row];
    const put = (/** @type {number} */ a, /** @type {number} */ share) => {
      const { low, high } = this.axes[a];
      const value = low + Math.min(1, Math.max(0, share)) * (high - low);
      row[a] = Math.min(high, Math.max(low, Number(value.toPrecision(5))));
    };
    put(this.x, px / w);
    if (this.y >= 0) put(this.y, 1 - py / height);
    this.onPick(row);
  }

  drawSlices() {
    if (this.axes.length <= 2) return;
    const choose = (/** @type {"x" | "y"} */ name) => h("select", {
      "aria-label": `${name} axis`,
      onchange: (/** @type {any} */ e) => {
        const chosen = Number(e.target.value);
        const other = name === "x" ? "y" : "x";
        if (chosen === this[other]) this[other] = this[name];
        this[name] = chosen;
        this.drawSlices();
        this.draw();
      },
    }, this.axes.map((/** @type {any} */ axis, /** @type {number} */ i) =>
      h("option", { value: i, selected: i === this[name] }, axis.label)));
    const rest = this.axes.map((/** @type {any} */ axis, /** @type {number} */ i) => {
      if (i === this.x || i === this.y) return null;
      return h("label", {}, `${axis.label} `, h("input", {
        type: "range", min: axis.low, max: axis.high, step: "any", value: this.row[i],
        oninput: (/** @type {any} */ e) => {
          const row = [...this.row];
          row[i] = Number(e.target.value);
          this.onPick(row);
        },
      }));
    });
    show(this.slices, h("label", {}, "across ", choose("x")), h("label", {}, "up ", choose("y")), rest);
  }

  draw() {
    const width = this.plot.clientWidth || 600;
    const margin = width < 480 ? { ...MARGINS, left: 44 } : MARGINS;
    const w = Math.max(50, width - margin.left - margin.right);
    const height = Math.round(this.y < 0 ? 70 : Math.min(w, Math.max(320, 0.6 * window.innerHeight), 620));
    this.size = { margin, w, height };
    this.canvas.width = w;
    this.canvas.height = height;
    placeCanvas(this.plot, this.canvas, this.size, { width, height: height + margin.top + margin.bottom });
    const { x, y, axes } = this;
    this.xScale = scale(axes[x].low, axes[x].high, "linear", w < 400 ? 4 : 7);
    this.yScale = y < 0 ? scale(0, 1, "linear") : scale(axes[y].low, axes[y].high, "linear", 7);
    this.paint();
    this.overlay.setAttribute("viewBox", `0 0 ${width} ${height + margin.top + margin.bottom}`);
    show(this.overlay, axisMarks(this), this.nodeMarks(), this.homeMarks(), this.pickMarks());
  }

  /** The region of each pixel, coarser where finding one is slow. */
  rasterise() {
    const { w, height } = /** @type {any} */ (this.size);
    const region = new Int32Array(w * height);
    const size = 1;
    const row = [...this.row];
    for (let py = 0; py < height; py += size) {
      if (this.y >= 0) row[this.y] = /** @type {any} */ (this.yScale).value(1 - Math.min(height - 1, py + size / 2) / height);
      for (let px = 0; px < w; px += size) {
        row[this.x] = /** @type {any} */ (this.xScale).value(Math.min(w - 1, px + size / 2) / w);
        const found = this.shelf.locate(row);
        for (let b = py; b < Math.min(height, py + size); b += 1) {
          region.fill(found, b * w + px, b * w + Math.min(w, px + size));
        }
      }
    }
    return region;
  }

  paint() {
    const { w, height } = /** @type {any} */ (this.size);
    const { shelf } = this;
    const region = this.rasterise();
    const who = Int32Array.from(region, (r) => shelf.policyOf(r));
    this.colours = colourSources(neighbours(who, [height, w], shelf.about.entries.length));
    const dark = isDark();
    const shades = Array.from(this.colours, (c) => pixel(rgb(colour(c))));
    const line = pixel(dark ? [22, 24, 28] : [255, 255, 255]);
    const bare = pixel(dark ? [38, 42, 48] : [250, 250, 250]);
    const hatch = pixel(dark ? [120, 126, 134] : [150, 150, 150]);
    let most = 0;
    let least = Infinity;
    for (const r of region) {
      const m = shelf.arrays.margin[r];
      if (Number.isFinite(m)) [least, most] = [Math.min(least, m), Math.max(most, m)];
    }
    this.range = [Number.isFinite(least) ? least : 0, most];
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(w, height);
    const pixels = new Uint32Array(image.data.buffer);
    let nothing = 0;
    for (let py = 0, i = 0; py < height; py += 1) {
      for (let px = 0; px < w; px += 1, i += 1) {
        const mine = who[i];
        const served = shelf.isServed(region[i]);
        if (!served) nothing += 1;
        if ((px && who[i - 1] !== mine) || (py && who[i - w] !== mine)) pixels[i] = line;
        else if (mine < 0) pixels[i] = (px + py) % 9 < 2 ? hatch : bare;
        else if (!served && (px + py) % 9 < 2) pixels[i] = hatch;
        else if (this.mode === "margin") {
          const margin = shelf.arrays.margin[region[i]];
          const share = (margin - this.range[0]) / (this.range[1] - this.range[0] || 1);
          pixels[i] = Number.isFinite(margin) ? pixel(ramp(share)) : bare;
        } else pixels[i] = shades[mine];
      }
    }
    context.putImageData(image, 0, 0);
    show(this.legend,
      this.mode === "margin"
        ? h("span", {}, h("span", { class: "ramp" }), ` margin from ${number(this.range[1])} (light) to ${number(this.range[0])} (dark)`)
        : h("span", {}, "A colour and a number for each policy; the circle is where it was trained."),
      nothing ? h("span", {}, h("span", { class: "hatch" }), " nothing is known to be served") : null,
      this.hasNodes() ? h("span", {}, h("span", { class: "dots" }), ` contexts that the ${spoken(this.shelf.about.guarantee)} speaks of`) : null);
  }

  hasNodes() {
    const { shelf } = this;
    return shelf.about.guarantee.speaks && (shelf.kind !== "boxes" || shelf.arrays.points) && this.axes.length <= 2
      && shelf.regions.n <= MAX_NODES;
  }

  nodeMarks() {
    if (!this.hasNodes()) return [];
    return Array.from({ length: this.shelf.regions.n }, (_, r) => {
      if (!this.shelf.isServed(r)) return null;
      const [cx, cy] = this.positionOf(this.shelf.node(r));
      return svg("circle", { cx, cy, r: 1.2, class: "node" });
    });
  }

  /** @param {number[]} row @returns {[number, number]} in pixels of the picture. */
  positionOf(row) {
    const { margin, w, height } = /** @type {any} */ (this.size);
    const x = margin.left + /** @type {any} */ (this.xScale).at(row[this.x]) * w;
    if (this.y < 0) return [x, margin.top + height / 2];
    return [x, margin.top + (1 - /** @type {any} */ (this.yScale).at(row[this.y])) * height];
  }

  homeMarks() {
    const { entries, names } = this.shelf.about;
    if (entries.length > 99) return [];
    return entries.map((/** @type {any} */ entry, /** @type {number} */ i) => {
      const home = names.map((/** @type {string} */ n) => entry.context[n] ?? NaN);
      const [x, y] = this.positionOf(home);
      if (!Number.isFinite(x) || !Number.isFinite(y)) return null;
      const fill = this.mode === "who" ? colour(/** @type {any} */ (this.colours)[i]) : "#ffffff";
      return [svg("circle", { cx: x, cy: y, r: 9, fill, class: "source" }),
        svg("text", { x, y: y + 3.5, "text-anchor": "middle", fill: ink(fill), class: "number", "font-size": 10.4 }, i)];
    });
  }

  pickMarks() {
    const [x, y] = this.positionOf(this.row);
    const d = `M${x - 9},${y}h18M${x},${y - 9}v18`;
    return [svg("path", { d, class: "pick-back" }), svg("path", { d, class: "pick" })];
  }
}

/**
 * @param {import("./data.js").Page} page
 */
export async function showLibrary(page) {
  const { about, library } = page.header;
  const shelf = await openShelf(page);
  const { entries, guarantee, names } = library;
  const isNamed = shelf.kind === "names";
  const map = isNamed ? null : new LibraryMap(shelf, (row) => pick(row));
  const answer = h("section", { class: "detail", "aria-live": "polite" });
  const fields = names.map((/** @type {string} */ name, /** @type {number} */ a) => h("input", {
    type: "number", step: "any", class: "context-number", "aria-label": library.labels[a],
    onchange: (/** @type {any} */ e) => {
      const row = [.../** @type {LibraryMap} */ (map).row];
      row[a] = e.target.value === "" ? NaN : Number(e.target.value);
      pick(row);
    },
  }));
  const mode = h("select", {
    class: "mode", "aria-label": "Colours of the map",
    onchange: () => { if (map) { map.mode = mode.value; update(); } },
  }, h("option", { value: "who" }, "which policy"), h("option", { value: "margin" }, "margin to ε"));
  const pick = (/** @type {number[]} */ row) => { if (map) { map.row = row; update(); } };
  const update = () => {
    if (!map) return;
    map.draw();
    fields.forEach((/** @type {any} */ f, /** @type {number} */ a) => { f.value = String(map.row[a]); });
    mode.value = map.mode;
    const found = shelf.select(map.row);
    const entry = entries[found.policy];
    show(answer, h("h3", {}, names.map((/** @type {string} */ n, /** @type {number} */ a) => `${n} ${number(map.row[a], 6)}`).join(", ")),
      h("p", {}, found.policy < 0 ? "No policy." : ["Policy ", h("b", {}, String(found.policy)), ` (${entry.name}): `],
        h("span", { class: `badge ${found.status === guarantee.status && guarantee.speaks ? guarantee.kind : found.status === "refused" ? "warning" : "open"}` }, found.status),
        ` ${STATUS_WORDS[found.status]}.`),
      found.policy < 0 || !Number.isFinite(found.margin) ? null
        : h("p", {}, `Margin: ${number(found.margin, 5)}${found.status === "guaranteed" || found.status === "estimated" ? "" : " (known for the region, not for this very context)"}.`),
      shelf.kind === "boxes" && found.region >= 0 ? h("p", { class: "certified" }, boxText(shelf, found.region)) : null);
    const state = new URLSearchParams({ x: map.row.join(","), v: map.mode, a: `${map.x}.${map.y}` });
    setFragment(`#${state}`);
  };
  const range = names.map((/** @type {string} */ _, /** @type {number} */ a) =>
    `${library.labels[a]} from ${number(library.low[a])} to ${number(library.high[a])}`).join(" and ");
  const things = entries.length === 1 ? "1 policy" : `${count(entries.length)} policies`;
  show(document.body,
    heading(about, [about.system, "policy library", `${count(library.regions.n)} ${library.regions.plural}`].filter(Boolean).join(" · "), [themeButton(update)]),
    h("section", { class: "panel" },
      h("p", { class: "sentence" }, h("b", { class: "size" }, things), " ",
        isNamed ? `for ${count(library.regions.n)} targets` : `for ${range}`,
        library.question ? `, within ${library.question}.` : "."),
      h("ul", { class: "claims" }, claimsOf(library).map(({ kind, text }) =>
        h("li", {}, h("span", { class: `badge ${kind}` }, kind), " ", text))),
      map ? h("div", { class: "controls" },
        fields.map((/** @type {any} */ f, /** @type {number} */ a) => h("label", {}, `${library.labels[a]} `, f)),
        h("label", {}, "colours ", mode)) : null,
      h("div", { class: map ? "pictures" : "" }, map ? map.element : namedTable(shelf),
        h("div", { class: "side" }, answer, policiesTable(library))),
      h("p", { class: "actions" },
        h("button", { type: "button", class: "save-contract", onclick: () => download("contract.json", "application/json", `${library.contract}\n`) }, "Download the contract"),
        h("code", { class: "command" }, `taskspace evaluate ${about.path} ${library.system || "SYSTEM"}`))),
    ending(about, [
      part("Policies", grid(library.table.head, library.table.rows, "Policies")),
      part("Contract", h("pre", {}, library.contract)),
    ], "Which policy a context gets is computed by the library's own law, to the last bit."));
  if (map) {
    const state = new URLSearchParams(location.hash.slice(1));
    const row = (state.get("x") ?? "").split(",").map(Number);
    if (row.length === names.length && row.every(Number.isFinite) && state.get("x")) map.row = row;
    if (state.get("v") === "margin") map.mode = "margin";
    const [x, y] = (state.get("a") ?? "").split(".").map(Number);
    const isAxis = (/** @type {number} */ a) => Number.isInteger(a) && a >= 0 && a < names.length;
    if (names.length > 2 && isAxis(x) && isAxis(y) && x !== y) Object.assign(map, { x, y });
    map.drawSlices();
    update();
    followWindow(update);
  }
  return { shelf, map, pick };
}

/** @param {any} guarantee what speaks of single contexts. */
function spoken(guarantee) {
  return guarantee.status === "estimated" ? "estimate" : "guarantee";
}

/** @param {any} library */
function claimsOf(library) {
  const { guarantee, outside, regions } = library;
  const found = [{ kind: guarantee.kind, text: guarantee.statement }];
  if (guarantee.speaks && (regions.kind !== "boxes" || regions.points) && regions.kind !== "names") {
    found.push({ kind: "open", text: `The ${spoken(guarantee)} speaks of the ${regions.plural} and of no context between them. Which policy is used there: ${regions.law}.` });
  }
  found.push({ kind: "law", text: outside === "refuse" ? "Outside of the range no policy is given." : "Outside of the range the policy of the nearest context inside is given, and said so." });
  return found;
}

/**
 * @param {Shelf} shelf
 * @param {number} region
 */
function boxText(shelf, region) {
  const { n } = shelf.regions;
  const edges = shelf.about.names.map((/** @type {string} */ name, /** @type {number} */ a) =>
    `${name} ${number(shelf.arrays.low[a * n + region], 5)} … ${number(shelf.arrays.high[a * n + region], 5)}`);
  return `Its box: ${edges.join(", ")}.`;
}

/** @param {any} library */
function policiesTable(library) {
  const rows = library.entries.map((/** @type {any} */ entry, /** @type {number} */ i) =>
    [String(i), entry.name, percent(library.shares[i])]);
  return [h("h3", {}, "Policies"), grid(["", "name", "used in"], rows, "Policies of the library")];
}

/** @param {Shelf} shelf */
function namedTable(shelf) {
  const rows = shelf.regions.targets.map((/** @type {string} */ name, /** @type {number} */ r) => {
    const policy = shelf.policyOf(r);
    const margin = shelf.arrays.margin[r];
    return [name, policy < 0 ? "none" : shelf.about.entries[policy].name,
      Number.isFinite(margin) ? number(margin, 5) : "–", shelf.isServed(r) ? "yes" : "no"];
  });
  const word = spoken(shelf.about.guarantee) === "estimate" ? "estimated" : "guaranteed";
  return grid(["target", "policy", "margin", word], rows, "Policy of each target");
}
