// Files that a reader takes along.

/** @typedef {import("./view.js").View} View */
/** @typedef {import("./view.js").Answer} Answer */

/**
 * The selection as a cover that `taskspace verify` reads.
 * @param {View} view
 * @param {Answer} answer
 * @returns {Promise<string>}
 */
export async function coverFile(view, answer) {
  const { header } = view.page;
  const n = view.layer.n;
  const isFull = answer.served === n - view.about.n_uncoverable;
  const { bound, kind } = view.bound(answer);
  const size = answer.sources.length;
  const uncoverable = [];
  for (let t = 0; t < n; t += 1) if (view.layer.reach[t] > view.step) uncoverable.push(t);
  const record = {
    format: "taskspace-cover",
    version: header.cover_format,
    question: {
      ...header.about.question, ask: view.about.ask,
    },
    ...view.cover.record,
    method: view.method === "hand" ? "by hand" : view.cover.record.method,
    sources: answer.sources,
    assignment: Array.from(answer.who, (place) => (place < 0 ? -1 : answer.sources[place])),
    coverage: answer.served / n,
    uncoverable,
    size,
    cost: size,
    lower_bound: bound,
    lower_bound_kind: kind === "size" ? "knapsack" : view.about.lower_kind,
    optimal: bound >= size,
    stop_reason: view.method === "hand" ? "chosen by hand" : view.cover.record.stop_reason,
  };
  const text = JSON.stringify(record);
  if (!isFull || !view.about.prices) return `${text}\n`;
  // Prices are put in as they are: whole numbers beyond what a browser counts.
  const prices = new TextDecoder().decode(await view.page.arrays.get(view.about.prices));
  return `${text.slice(0, -1)}, "prices": ${prices}}\n`;
}
