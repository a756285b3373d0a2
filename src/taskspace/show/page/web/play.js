// A policy at work: the chosen context beside its own source.

/** @typedef {import("./view.js").View} View */

/**
 * @param {View} view
 * @param {number} source
 * @param {number} target
 * @returns {any}
 */
export function playPart(view, source, target) {
  void view; void source; void target;
  return null;
}
