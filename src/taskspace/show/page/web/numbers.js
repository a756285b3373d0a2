// Numbers for people, and the scales of axes.

/**
 * A number as `taskspace` prints it: so many significant digits.
 * @param {number} value
 * @param {number} [digits]
 */
export function number(value, digits = 4) {
  if (value === Infinity) return "∞";
  if (value === -Infinity) return "−∞";
  if (Number.isNaN(value)) return "–";
  const short = Number(value.toPrecision(digits));
  const size = Math.abs(short);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return short.toExponential().replace("-", "−");
  return String(short).replace("-", "−");
}

/** @param {number} value a whole number, with separators. */
export function count(value) {
  return value.toLocaleString("en-US");
}

/** @param {number} share never 100 % unless it is, never 0 % unless it is. */
export function percent(share) {
  if (share === 1) return "100 %";
  if (share === 0) return "0 %";
  const text = (100 * share).toPrecision(4);
  if (Number(text) >= 100) return "> 99.99 %";
  return `${Number(text)} %`;
}

/**
 * A scale from values to 0…1 and back.
 * @typedef {{ at: (value: number) => number, value: (at: number) => number,
 *   ticks: number[] }} Scale
 */

/**
 * @param {number} low
 * @param {number} high
 * @param {string} kind `linear` or `log`.
 * @param {number} [n] about how many ticks.
 * @returns {Scale}
 */
export function scale(low, high, kind, n = 6) {
  if (low === high) {
    return { at: () => 0.5, value: () => low, ticks: [low] };
  }
  if (kind === "log" && low > 0) {
    const a = Math.log(low);
    const b = Math.log(high);
    return {
      at: (value) => (Math.log(value) - a) / (b - a),
      value: (at) => Math.exp(a + at * (b - a)),
      ticks: logTicks(low, high, n),
    };
  }
  return {
    at: (value) => (value - low) / (high - low),
    value: (at) => low + at * (high - low),
    ticks: linearTicks(low, high, n),
  };
}

/**
 * @param {number} low
 * @param {number} high
 * @param {number} n
 */
export function linearTicks(low, high, n) {
  const raw = (high - low) / n;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * size).find((s) => s >= raw) ?? raw;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

/**
 * @param {number} low
 * @param {number} high
 * @param {number} n
 */
export function logTicks(low, high, n) {
  for (const mantissas of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k += 1) {
      for (const m of mantissas) {
        const value = Number((m * 10 ** k).toPrecision(3));
        if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
      }
    }
    if (ticks.length <= n + 1) return ticks.length > 1 ? ticks : [low, high];
  }
  const decades = Math.log10(high / low);
  const every = Math.ceil(decades / n);
  const ticks = [];
  for (let k = Math.ceil(Math.log10(low)); k <= Math.log10(high); k += every) {
    ticks.push(Number((10 ** k).toPrecision(3)));
  }
  return ticks;
}

/**
 * Which cell of an axis each of `n` pixels shows. Cells meet half way between their
 * values (in the axis' own scale) and the picture ends at the first and last value.
 * @param {number[]} values ascending.
 * @param {Scale} axis
 * @param {number} n
 */
export function cellOfPixel(values, axis, n) {
  const cells = new Int32Array(n);
  const at = values.map(axis.at);
  let cell = 0;
  for (let pixel = 0; pixel < n; pixel += 1) {
    const here = (pixel + 0.5) / n;
    while (cell + 1 < at.length && here > (at[cell] + at[cell + 1]) / 2) cell += 1;
    cells[pixel] = cell;
  }
  return cells;
}
