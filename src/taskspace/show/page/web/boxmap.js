// Certified boxes as a picture: who is certified to serve which part of the box.

import { colour, colourSources, neighbours, rgb } from "./colours.js";
import { isDark } from "./dom.js";

/** @param {[number, number, number]} c @returns {number} a pixel. */
export function pixel([r, g, b]) {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/**
 * Boxes in the colours of their sources; what is not certified stays open.
 * @param {any} map a `ContextMap`.
 * @param {import("./boxes.js").Boxes} boxes
 * @returns {Int32Array} the colour number of each selected source.
 */
export function drawBoxes(map, boxes) {
  const { answer } = map.now;
  const { width, height } = map.canvas;
  const { n, names } = boxes.about;
  const owner = new Int32Array(width * height).fill(-1);
  const place = new Map(answer.sources.map((/** @type {number} */ s, /** @type {number} */ i) => [s, i]));
  const rest = names.map((/** @type {string} */ name) => map.sliceValue(name));
  const along = (/** @type {number} */ axis) =>
    (axis < 0 ? -1 : names.indexOf(map.axes[axis].name));
  const [ax, ay] = [along(map.x), along(map.y)];
  const edge = (/** @type {number} */ a, /** @type {any} */ scaled, /** @type {number} */ box, /** @type {number} */ size) =>
    (a < 0 ? [0, size] : [boxes.low[a * n + box], boxes.high[a * n + box]]
      .map((v) => Math.round(Math.min(1, Math.max(0, scaled.at(v))) * size)));
  for (let box = 0; box < n; box += 1) {
    const away = rest.some((/** @type {number} */ v, /** @type {number} */ a) =>
      v < boxes.low[a * n + box] || v > boxes.high[a * n + box]);
    if (away) continue;
    const who = place.get(boxes.sourceOf(box)) ?? (boxes.isUncovered(box) ? -2 : -1);
    const [x0, x1] = edge(ax, map.xScale, box, width);
    const [y0, y1] = edge(ay, map.yScale, box, height);
    for (let y = y0; y < y1; y += 1) owner.fill(who, (height - 1 - y) * width + x0, (height - 1 - y) * width + x1);
  }
  const colours = colourSources(neighbours(owner, [height, width], answer.sources.length));
  const dark = isDark();
  const shades = Array.from(colours, (c) => pixel(rgb(colour(c))));
  const bare = pixel(dark ? [38, 42, 48] : [250, 250, 250]);
  const mark = pixel(dark ? [120, 126, 134] : [150, 150, 150]);
  const line = pixel(dark ? [22, 24, 28] : [255, 255, 255]);
  const context = map.canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let y = 0, i = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, i += 1) {
      const who = owner[i];
      if (who >= 0) {
        const border = (x && owner[i - 1] !== who) || (y && owner[i - width] !== who);
        pixels[i] = border ? line : shades[who];
      } else {
        const on = who === -1 ? x % 7 < 2 && y % 7 < 2 : (x + y) % 9 < 2;
        pixels[i] = on ? mark : bare;
      }
    }
  }
  context.putImageData(image, 0, 0);
  return colours;
}
