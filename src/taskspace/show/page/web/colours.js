// Colours of sources: regions that touch never share one.

// Okabe & Ito (2008) without black, then lighter and darker ones of the same hues.
const PALETTE = [
  "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999",
  "#66AAD1", "#F0C566", "#66C5AB", "#E0AFCA", "#9AD2F2", "#E69E66", "#F6EF8E", "#C2C2C2",
  "#00446B", "#8A5F00", "#005F45", "#7A4964", "#346C8C", "#803800", "#908829", "#5C5C5C",
];

/** @param {number} i colour number `i`; there is no last one. */
export function colour(i) {
  if (i < PALETTE.length) return PALETTE[i];
  const turn = (i * 137.508) % 360;
  return hsl(turn, 0.55, 0.35 + 0.3 * ((i * 0.618) % 1));
}

/**
 * @param {number} turn
 * @param {number} s
 * @param {number} l
 */
function hsl(turn, s, l) {
  const part = (/** @type {number} */ n) => {
    const k = (n + turn / 30) % 12;
    const value = l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return Math.round(255 * value).toString(16).padStart(2, "0");
  };
  return `#${part(0)}${part(8)}${part(4)}`;
}

/** @param {string} hex @returns {[number, number, number]} */
export function rgb(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** @param {string} hex a colour of text that can be read on it. */
export function ink(hex) {
  const [r, g, b] = rgb(hex).map((v) => {
    const c = v / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return light > 0.179 ? "#000000" : "#ffffff";
}

/**
 * Pairs of sources whose regions touch, along an axis or at a corner of a plane.
 * @param {Int32Array} who place of each target's source.
 * @param {number[]} shape of the grid, last axis fastest.
 * @param {number} n number of sources.
 * @returns {Set<number>[]} neighbours of each source.
 */
export function neighbours(who, shape, n) {
  const near = Array.from({ length: n }, () => /** @type {Set<number>} */ (new Set()));
  const seen = new Set();
  const meet = (/** @type {number} */ a, /** @type {number} */ b) => {
    if (a === b || a < 0 || b < 0) return;
    const pair = a * n + b;
    if (seen.has(pair)) return;
    seen.add(pair);
    near[a].add(b);
    near[b].add(a);
  };
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    const size = shape[axis];
    const block = stride * size;
    for (let start = 0; start < who.length; start += block) {
      for (let i = start; i < start + block - stride; i += 1) meet(who[i], who[i + stride]);
    }
    stride = block;
  }
  if (shape.length === 2) {
    const [rows, width] = shape;
    for (let y = 0; y + 1 < rows; y += 1) {
      for (let x = 0; x + 1 < width; x += 1) {
        const i = y * width + x;
        meet(who[i], who[i + width + 1]);
        meet(who[i + 1], who[i + width]);
      }
    }
  }
  return near;
}

/**
 * A colour number for each source, different from those of its neighbours.
 * @param {Set<number>[]} near
 */
export function colourSources(near) {
  const chosen = new Int32Array(near.length).fill(-1);
  const used = new Array(8).fill(0);
  const order = near.map((_, i) => i).sort((a, b) => near[b].size - near[a].size || a - b);
  for (const i of order) {
    const taken = new Set([...near[i]].map((j) => chosen[j]));
    // The eight plain colours first; of those the one used least so far.
    const band = (/** @type {number} */ k) => Math.floor(k / 8);
    const free = used.map((_, c) => c).filter((c) => !taken.has(c));
    if (!free.length) free.push(used.push(0) - 1);
    const best = free.reduce((b, c) => (band(c) === band(b) && used[c] < used[b] ? c : b));
    used[best] += 1;
    chosen[i] = best;
  }
  return chosen;
}

// Cividis, which reads the same with any kind of colour vision.
const CIVIDIS = [
  [0, 32, 77], [0, 47, 111], [58, 66, 108], [87, 86, 109], [112, 108, 114], [138, 131, 120],
  [165, 156, 116], [195, 182, 105], [226, 211, 84], [255, 234, 70],
];

/** @param {number} share 0…1. @returns {[number, number, number]} */
export function ramp(share) {
  const at = Math.min(0.9999, Math.max(0, share)) * (CIVIDIS.length - 1);
  const i = Math.floor(at);
  const mix = (/** @type {number} */ k) =>
    Math.round(CIVIDIS[i][k] + (at - i) * (CIVIDIS[i + 1][k] - CIVIDIS[i][k]));
  return [mix(0), mix(1), mix(2)];
}
