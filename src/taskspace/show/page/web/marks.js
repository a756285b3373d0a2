// What is drawn over the map: axes, sources, trainings, the context that is looked at.

import { colour, ink } from "./colours.js";
import { svg } from "./dom.js";
import { number } from "./numbers.js";

/** @typedef {import("./map.js").ContextMap} ContextMap */

const MAX_LABELS = 99;
const MAX_DOTS = 3000;

/** @param {any} map a `ContextMap`. */
export function axisMarks(map) {
  const { margin, w, height } = map.size;
  const bottom = margin.top + height;
  const parts = [svg("rect", { x: margin.left, y: margin.top, width: w, height, class: "frame" })];
  for (const tick of map.xScale.ticks) {
    const x = margin.left + map.xScale.at(tick) * w;
    parts.push(svg("line", { x1: x, x2: x, y1: bottom, y2: bottom + 5, class: "axis" }),
      svg("text", { x, y: bottom + 18, "text-anchor": "middle" }, number(tick)));
  }
  parts.push(svg("text", {
    x: margin.left + w / 2, y: bottom + 37, "text-anchor": "middle", class: "label",
  }, map.axes[map.x].label));
  if (map.y < 0) return parts;
  for (const tick of map.yScale.ticks) {
    const y = margin.top + (1 - map.yScale.at(tick)) * height;
    parts.push(svg("line", { x1: margin.left - 5, x2: margin.left, y1: y, y2: y, class: "axis" }),
      svg("text", { x: margin.left - 8, y: y + 4, "text-anchor": "end" }, number(tick)));
  }
  parts.push(svg("text", {
    transform: `translate(${margin.left < 50 ? 11 : 14},${margin.top + height / 2}) rotate(-90)`,
    "text-anchor": "middle", class: "label",
  }, map.axes[map.y].label));
  return parts;
}

/** @param {import("./data.js").Page} page whether all trainings are shown, not only those selected. */
export function hasDots(page) {
  const { sources, selection } = page.header;
  return Boolean(selection) && sources.n <= MAX_DOTS && sources.axes.length > 0;
}

/** @param {any} map a dot for each training. */
export function trainedMarks(map) {
  const { page, size } = map;
  if (!hasDots(page)) return [];
  return Array.from({ length: page.header.sources.n }, (_, s) => {
    const [x, y] = map.positionOf(s, "source");
    if (!Number.isFinite(x) || !Number.isFinite(y)) return null;
    const [cx, cy] = [size.margin.left + x, size.margin.top + y];
    return svg("circle", { cx, cy, r: 2, class: "trained" });
  });
}

/** @param {any} map the border of what each selected source was trained on, where that is a region. */
export function regionMarks(map) {
  const { page, size } = map;
  if (!map.isGrid || map.y < 0) return [];
  const trained = new Map((page.header.selection?.sources ?? [])
    .filter((/** @type {any} */ s) => s.region.length).map((/** @type {any} */ s) => [s.place, s.region]));
  const xs = cellEdges(map.axes[map.x].values, map.xScale);
  const ys = cellEdges(map.axes[map.y].values, map.yScale);
  const at = (/** @type {number} */ i, /** @type {number} */ j) =>
    `${size.margin.left + xs[i] * size.w},${size.margin.top + (1 - ys[j]) * size.height}`;
  return map.now.answer.sources.map((/** @type {number} */ source, /** @type {number} */ place) => {
    if (!trained.has(source)) return null;
    const members = new Set();
    for (const [first, stop] of trained.get(source)) {
      for (let t = first; t < stop; t++) {
        if (!isInSlice(map, t, "target")) continue;
        const own = page.valuesOf(t);
        members.add([map.x, map.y].map((a) => map.axes[a].values.indexOf(own.get(map.axes[a].name))).join());
      }
    }
    let d = "";
    for (const cell of members) {
      const [i, j] = cell.split(",").map(Number);
      if (!members.has(`${i - 1},${j}`)) d += `M${at(i, j)}L${at(i, j + 1)}`;
      if (!members.has(`${i + 1},${j}`)) d += `M${at(i + 1, j)}L${at(i + 1, j + 1)}`;
      if (!members.has(`${i},${j - 1}`)) d += `M${at(i, j)}L${at(i + 1, j)}`;
      if (!members.has(`${i},${j + 1}`)) d += `M${at(i, j + 1)}L${at(i + 1, j + 1)}`;
    }
    return [svg("path", { d, class: "region under" }),
      svg("path", { d, class: "region", stroke: colour(map.colours[place]) })];
  });
}

/**
 * Where cells meet, as parts of the axis.
 * @param {number[]} values
 * @param {any} along
 */
function cellEdges(values, along) {
  const places = values.map((v) => along.at(v));
  return [places[0], ...places.slice(1).map((p, i) => (p + places[i]) / 2), places[places.length - 1]];
}

/** @param {any} map the sources, each in the colour of its region and with its number. */
export function sourceMarks(map) {
  const { answer, mode } = map.now;
  const { margin } = map.size;
  const many = answer.sources.length > MAX_LABELS;
  const radius = many ? 2.5 : answer.sources.length > 40 ? 7 : 9;
  return answer.sources.map((/** @type {number} */ source, /** @type {number} */ place) => {
    const [x, y] = map.positionOf(source, "source");
    if (!Number.isFinite(x) || !Number.isFinite(y)) return null;
    const fill = mode === "who" || mode === "boxes" ? colour(map.colours[place]) : "#ffffff";
    const at = { x: margin.left + x, y: margin.top + y };
    const away = !isInSlice(map, source);
    return [
      svg("circle", { cx: at.x, cy: at.y, r: radius, fill, class: away ? "source away" : "source" }),
      many ? null : svg("text", {
        x: at.x, y: at.y + radius / 2.6, "text-anchor": "middle", fill: ink(fill),
        class: away ? "number away" : "number", "font-size": radius * 1.15,
      }, place + 1),
    ];
  });
}

/**
 * Whether a context lies in the slice that is shown.
 * @param {any} map
 * @param {number} source number of the source or target.
 * @param {"source" | "target"} [side]
 */
function isInSlice(map, source, side = "source") {
  const { axes } = map.page.header[`${side}s`];
  const all = side === "source" ? map.page.sourceContexts : map.page.targetContexts;
  return map.axes.every((/** @type {any} */ axis, /** @type {number} */ a) => {
    if (a === map.x || a === map.y || !axis.values) return true;
    const place = axes.findIndex((/** @type {any} */ x) => x.name === axis.name);
    const { values } = axis;
    const width = (values[values.length - 1] - values[0]) / (2 * values.length) || Infinity;
    return place < 0 || Math.abs(all[source * axes.length + place] - values[map.slice[a]]) < width;
  });
}

/** @param {any} map the certified box of the context that is looked at. */
export function boxMark(map) {
  const { view, answer, mode } = map.now;
  if (mode !== "boxes" || !view.boxes || view.pick < 0) return null;
  const box = view.boxes.find(view.boxes.placeOf(view.page.valuesOf(view.pick)), answer.sources);
  if (box < 0) return null;
  const { margin, w, height } = map.size;
  const edges = new Map(view.boxes.edges(box).map(
    (/** @type {[string, number, number]} */ [name, low, high]) => [name, [low, high]]));
  const [x0, x1] = (edges.get(map.axes[map.x].name) ?? [NaN, NaN]).map((/** @type {number} */ v) => map.xScale.at(v) * w);
  const [y0, y1] = map.y < 0 ? [0, 1]
    : (edges.get(map.axes[map.y].name) ?? [NaN, NaN]).map((/** @type {number} */ v) => map.yScale.at(v));
  if (![x0, x1, y0, y1].every(Number.isFinite)) return null;
  return svg("rect", {
    x: margin.left + x0, y: margin.top + (1 - y1) * height, width: Math.max(1, x1 - x0),
    height: Math.max(1, (y1 - y0) * height), class: "box",
  });
}

/** @param {any} map the context that is looked at. */
export function pickMark(map) {
  const { view } = map.now;
  if (view.pick < 0) return null;
  const { margin } = map.size;
  const [x, y] = map.positionOf(view.pick);
  const d = `M${margin.left + x - 9},${margin.top + y}h18M${margin.left + x},${margin.top + y - 9}v18`;
  const away = isInSlice(map, view.pick, "target") ? "" : " away";
  return [svg("path", { d, class: `pick-back${away}` }), svg("path", { d, class: `pick${away}` })];
}
