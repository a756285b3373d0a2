// One question and one selection of sources: who serves whom, exactly.

/** @typedef {import("./data.js").Page} Page */
/** @typedef {import("./data.js").Layer} Layer */

/**
 * What a selection of sources does at a tolerance.
 * @typedef {{ sources: number[], who: Int32Array, served: number,
 *   counts: number[] }} Answer
 * `who` is the place of each target's source in `sources`, −1 for none; `counts` how
 * many targets each of them is given.
 */

/** A question about the table and an answer to it. */
export class View {
  /**
   * @param {Page} page
   * @param {Layer} layer
   */
  constructor(page, layer) {
    this.page = page;
    this.layer = layer;
    /** @type {number} number of the tolerance. */
    this.step = 0;
    /** @type {string} name of a method, `best` or `hand`. */
    this.method = "best";
    /** @type {number | null} take only so many sources. */
    this.budget = null;
    /** @type {number[]} sources chosen by hand. */
    this.hand = [];
    /** @type {number} target that is looked at, −1 for none. */
    this.pick = -1;
    /** @type {import("./boxes.js").Boxes | null} what is certified between targets. */
    this.boxes = null;
    this.step = layer.about.start;
  }

  get about() {
    return this.layer.about.steps[this.step];
  }

  get epsilon() {
    return this.about.epsilon;
  }

  /** @param {number} epsilon move to the largest step that does not exceed it. */
  setEpsilon(epsilon) {
    const below = this.layer.about.steps.filter((/** @type {any} */ s) => s.epsilon <= epsilon);
    this.step = Math.max(0, below.length - 1);
  }

  /** The library's cover that this view starts from. */
  get cover() {
    const { covers, best } = this.about;
    if (this.method === "best" || this.method === "hand") return covers[best];
    return covers.find((/** @type {any} */ c) => c.record.method === this.method)
      ?? covers[best];
  }

  /** Sources of the selection, in order. */
  get sources() {
    if (this.method === "hand") return this.hand;
    const { sources, by_gain: ordered } = this.cover;
    return this.budget === null ? sources : ordered.slice(0, this.budget);
  }

  /** Whether the selection is all of a cover that the library made. */
  get isWhole() {
    return this.method !== "hand"
      && (this.budget === null || this.budget >= this.cover.sources.length);
  }

  /** Whether every selected source has its row in the page: then some can be changed. */
  get isHere() {
    return this.sources.every((/** @type {number} */ s) => this.page.rowOf.has(s));
  }

  /** @param {number} source take a source in, or out. */
  toggle(source) {
    const now = [...this.sources];
    const place = now.indexOf(source);
    if (place < 0) now.push(source);
    else now.splice(place, 1);
    this.hand = now;
    this.method = "hand";
    this.budget = null;
  }

  /** @returns {Promise<Answer>} */
  async answer() {
    const { sources } = this;
    const n = this.layer.n;
    let who = new Int32Array(n).fill(-1);
    if (this.isWhole && !this.isHere) {
      const stored = await this.page.arrays.get(this.cover.assignment);
      for (let t = 0; t < n; t += 1) who[t] = stored[t] < sources.length ? stored[t] : -1;
    } else {
      this.assign(sources, who);
    }
    const counts = new Array(sources.length).fill(0);
    let served = 0;
    for (let t = 0; t < n; t += 1) {
      if (who[t] >= 0) {
        counts[who[t]] += 1;
        served += 1;
      }
    }
    return { sources, who, served, counts };
  }

  /**
   * The source of least loss of each target, among those that serve it.
   * @param {number[]} sources
   * @param {Int32Array} who filled with places in `sources`.
   */
  assign(sources, who) {
    const { first, rank, n } = this.layer;
    const best = new Uint16Array(n).fill(65535);
    const { step } = this;
    sources.forEach((source, place) => {
      const row = this.page.rowOf.get(source);
      if (row === undefined) return;
      const firsts = first.subarray(row * n, (row + 1) * n);
      const ranks = rank.subarray(row * n, (row + 1) * n);
      for (let t = 0; t < n; t += 1) {
        if (firsts[t] <= step && ranks[t] < best[t]) {
          best[t] = ranks[t];
          who[t] = place;
        }
      }
    });
  }

  /** @param {number} source how many targets it serves at this step. */
  setSize(source) {
    const row = this.page.rowOf.get(source);
    if (row === undefined) return null;
    const { first, n } = this.layer;
    let size = 0;
    for (let t = row * n; t < (row + 1) * n; t += 1) if (first[t] <= this.step) size += 1;
    return size;
  }

  /**
   * Loss of a source at a target, null where its row is not here.
   * @param {number} source
   * @param {number} target
   */
  loss(source, target) {
    const row = this.page.rowOf.get(source);
    return row === undefined ? null : this.layer.loss(row, target);
  }

  /**
   * What is proven of the least number of sources that serve as many targets.
   * @param {Answer} answer
   * @returns {{ bound: number, kind: string }}
   */
  bound(answer) {
    const { lower, largest, n_uncoverable: lost } = this.about;
    if (answer.served === this.layer.n - lost) return { bound: lower, kind: "step" };
    const bound = answer.served ? Math.ceil(answer.served / largest) : 0;
    return { bound, kind: "size" };
  }
}
