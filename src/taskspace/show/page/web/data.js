// The data of the page: a JSON header, and arrays as deflated base64.

import { number } from "./numbers.js";

/**
 * @typedef {{ blob: number, type: string, shape: number[], width?: number }} About
 * @typedef {Uint8Array | Uint16Array | Uint32Array | Float32Array | Float64Array} Numbers
 */

const TYPES = /** @type {Record<string, any>} */ ({
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array,
});

/** @param {string} text base64. */
function bytesOf(text) {
  const fast = /** @type {any} */ (Uint8Array).fromBase64;
  if (fast) return fast.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** @param {Uint8Array} packed */
async function inflate(packed) {
  const stream = new Blob([/** @type {any} */ (packed)]).stream();
  const plain = stream.pipeThrough(new DecompressionStream("deflate"));
  return new Response(plain).arrayBuffer();
}

/**
 * Undo the prediction of each cell from its left, upper and upper left neighbours.
 * @param {Uint8Array} bytes
 * @param {About} about
 */
function unpredict(bytes, about) {
  const n = about.shape.reduce((a, b) => a * b, 1);
  const wide = about.type === "u2";
  const out = wide ? new Uint16Array(n) : new Uint8Array(n);
  const width = /** @type {number} */ (about.width);
  const row = n / about.shape[0];
  for (let start = 0; start < n; start += row) {
    for (let line = start; line < start + row; line += width) {
      const isFirst = line === start;
      let left = 0;
      let corner = 0;
      for (let i = line; i < line + width; i += 1) {
        const z = wide ? bytes[i] | (bytes[n + i] << 8) : bytes[i];
        const up = isFirst ? 0 : out[i - width];
        out[i] = ((z >>> 1) ^ -(z & 1)) + left + up - corner;
        left = out[i];
        corner = up;
      }
    }
  }
  return out;
}

/** Arrays by number, each unpacked when it is first asked for. */
class Arrays {
  /** @param {(blob: number) => Promise<string>} read */
  constructor(read) {
    this.read = read;
    /** @type {Map<number, Promise<Numbers>>} */
    this.known = new Map();
  }

  /**
   * @param {About} about
   * @returns {Promise<any>}
   */
  get(about) {
    if (!this.known.has(about.blob)) this.known.set(about.blob, this.make(about));
    return /** @type {any} */ (this.known.get(about.blob));
  }

  /** @param {About} about */
  async make(about) {
    const buffer = await inflate(bytesOf(await this.read(about.blob)));
    if (about.width) return unpredict(new Uint8Array(buffer), about);
    return new TYPES[about.type](buffer);
  }
}

/**
 * Everything that one criterion and judge needs, unpacked.
 * @typedef {{ about: any, n: number, first: Numbers, rank: Numbers, reach: Numbers,
 *   loss: (row: number, target: number) => number, isExact: boolean,
 *   error: Float32Array | null }} Layer
 */

/**
 * Losses from 16 bits, for colours and labels marked as approximate.
 * @param {{ low: number, step: number, scale: number }} about
 * @param {Numbers} codes
 * @param {number} n
 */
function roughLoss({ low, step, scale }, codes, n) {
  return (/** @type {number} */ row, /** @type {number} */ target) => {
    const code = codes[row * n + target];
    return code === 65535 ? Infinity : scale * Math.sinh(low + step * code);
  };
}

/** The page's data. */
export class Page {
  /**
   * @param {any} header
   * @param {Arrays} arrays
   */
  constructor(header, arrays) {
    this.header = header;
    this.arrays = arrays;
    /** @type {Map<string, Promise<Layer>>} */
    this.layers = new Map();
    /** @type {Map<number, number>} place of a source among the rows that are here. */
    this.rowOf = new Map();
    /** @type {Uint32Array} */
    this.rows = new Uint32Array(0);
    /** @type {Float64Array | null} */
    this.sourceContexts = null;
    /** @type {Float64Array | null} */
    this.targetContexts = null;
    /** @type {Float64Array | null} */
    this.bestKnown = null;
    /** @type {Float64Array | null} of sources with one linear policy each. */
    this.gains = null;
  }

  /** Names of the entries of a gain, none where policies are no single gains. */
  get gainNames() {
    if (!this.gains) return [];
    const n = this.gains.length / this.rows.length;
    return Array.from({ length: n }, (_, i) => `gain: ${this.header.gains.names?.[i] ?? i + 1}`);
  }

  /** @param {number} source its gain, entry by entry; empty text where it is not here. */
  gainsOf(source) {
    const n = this.gainNames.length;
    const row = this.rowOf.get(source);
    return Array.from({ length: n }, (_, i) =>
      (row === undefined ? "" : number(/** @type {any} */ (this.gains)[row * n + i], 6)));
  }

  async open() {
    const { header, arrays } = this;
    this.rows = await arrays.get(header.rows);
    this.rows.forEach((source, row) => this.rowOf.set(source, row));
    const maybe = (/** @type {About | null} */ about) => (about ? arrays.get(about) : null);
    this.sourceContexts = await maybe(header.sources.contexts);
    this.targetContexts = await maybe(header.targets.contexts);
    this.bestKnown = await maybe(header.best_known);
    this.gains = header.gains ? await arrays.get(header.gains.values) : null;
    if (header.order) {
      this.rowOrder = await arrays.get(header.order.rows);
      this.targetOrder = await arrays.get(header.order.targets);
    }
    return this;
  }

  /**
   * @param {string} key criterion and judge.
   * @returns {Promise<Layer>}
   */
  layer(key) {
    if (!this.layers.has(key)) this.layers.set(key, this.makeLayer(key));
    return /** @type {any} */ (this.layers.get(key));
  }

  /** @param {string} key */
  async makeLayer(key) {
    const about = this.header.layers.find((/** @type {any} */ l) => l.key === key);
    const { arrays } = this;
    const n = this.header.targets.n;
    const [first, rank, reach, values] = await Promise.all([
      arrays.get(about.first), arrays.get(about.rank), arrays.get(about.reach),
      arrays.get(about.loss.values),
    ]);
    const { exact } = about.loss;
    const loss = exact
      ? (/** @type {number} */ row, /** @type {number} */ target) => values[row * n + target]
      : roughLoss(about.loss, values, n);
    const error = about.standard_error ? await arrays.get(about.standard_error) : null;
    return { about, n, first, rank, reach, loss, isExact: exact, error };
  }

  /**
   * @param {"source" | "target"} side
   * @param {number} index
   */
  name(side, index) {
    const known = this.header[`${side}s`];
    if (known.names) return known.names[index];
    const context = this.context(side, index);
    const kind = known.kinds && known.kinds[index] !== "trained" ? ` (${known.kinds[index]})` : "";
    return (context ? context.map(([n, v]) => `${n} ${v}`).join(", ") : `${side} ${index}`) + kind;
  }

  /**
   * @param {"source" | "target"} side
   * @param {number} index
   * @returns {[string, string][] | null} name and value of each axis.
   */
  context(side, index) {
    const { axes } = this.header[`${side}s`];
    const all = side === "source" ? this.sourceContexts : this.targetContexts;
    if (!all || !axes.length) return null;
    return axes.map((/** @type {any} */ axis, /** @type {number} */ i) => {
      const unit = /\[([^\]]+)\]$/.exec(axis.label)?.[1];
      const value = String(Number(all[index * axes.length + i].toPrecision(5))).replace("-", "−");
      return [axis.name, unit ? `${value} ${unit}` : value];
    });
  }

  /**
   * The context of a target by the names of its axes.
   * @param {number} target
   * @returns {Map<string, number>}
   */
  valuesOf(target) {
    const { axes } = this.header.targets;
    const all = this.targetContexts;
    return new Map(axes.map((/** @type {any} */ axis, /** @type {number} */ i) =>
      [axis.name, all ? all[target * axes.length + i] : NaN]));
  }
}

/** The data embedded in this document. */
export function embedded() {
  const text = (/** @type {string} */ id) => {
    const element = document.getElementById(id);
    if (!element) throw new Error(`The page has lost its part ${id}.`);
    return element.textContent ?? "";
  };
  const header = JSON.parse(text("header"));
  return new Page(header, new Arrays(async (blob) => text(`blob-${blob}`)));
}
