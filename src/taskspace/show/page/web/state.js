// The state of the page in the address: a link shows what its sender saw.

/** @typedef {import("./view.js").View} View */

/**
 * @param {View} view
 * @param {{ mode: string, source: number, map: any }} shown
 * @param {string} prefix
 * @param {URLSearchParams} into
 */
export function writeView(view, shown, prefix, into) {
  into.set(`${prefix}c`, view.layer.about.key);
  into.set(`${prefix}e`, String(view.epsilon));
  if (view.method !== "best") into.set(`${prefix}m`, view.method);
  if (view.method === "hand") into.set(`${prefix}s`, view.hand.join("."));
  if (view.budget !== null) into.set(`${prefix}k`, String(view.budget));
  if (view.pick >= 0) into.set(`${prefix}p`, String(view.pick));
  if (shown.mode !== "who") into.set(`${prefix}v`, shown.mode);
  if (shown.mode === "source") into.set(`${prefix}o`, String(shown.source));
  if (shown.map.axes?.length > 2) {
    into.set(`${prefix}x`, [shown.map.x, shown.map.y, ...shown.map.slice].join("."));
  }
}

/**
 * Put a view into the state that an address holds; what makes no sense is left out.
 * @param {View} view
 * @param {{ mode: string, source: number, map: any }} shown
 * @param {string} prefix
 * @param {URLSearchParams} from
 */
export function readView(view, shown, prefix, from) {
  const get = (/** @type {string} */ name) => from.get(prefix + name);
  const whole = (/** @type {string | null} */ text, /** @type {number} */ limit) => {
    const value = Number(text);
    return text !== null && text !== "" && Number.isInteger(value) && value >= 0 && value < limit
      ? value : null;
  };
  const { sources, targets } = view.page.header;
  const epsilon = Number(get("e"));
  if (get("e") !== null && Number.isFinite(epsilon)) view.setEpsilon(epsilon);
  const method = get("m");
  if (method !== null && /^[a-z]+$/.test(method)) view.method = method;
  if (method === "hand") {
    const chosen = (get("s") ?? "").split(".").map((s) => whole(s, sources.n));
    view.hand = [...new Set(chosen)].filter(
      (s) => s !== null && view.page.rowOf.has(s)).map(Number);
  }
  view.budget = whole(get("k"), sources.n + 1);
  view.pick = whole(get("p"), targets.n) ?? -1;
  const mode = get("v");
  if (mode === "loss" || mode === "source" || mode === "boxes") shown.mode = mode;
  shown.source = whole(get("o"), sources.n) ?? shown.source;
  const axes = (get("x") ?? "").split(".").map(Number);
  const { map } = shown;
  if (!map.axes || axes.length !== map.axes.length + 2 || !axes.every(Number.isInteger)) return;
  const [x, y, ...slice] = axes;
  const isAxis = (/** @type {number} */ a) => a >= 0 && a < map.axes.length;
  const isInside = slice.every((place, a) => place >= 0 && place < (map.axes[a].values?.length ?? 1));
  if (!isAxis(x) || !isAxis(y) || x === y || !isInside) return;
  Object.assign(map, { x, y, slice });
  map.drawSlices();
}
