// A policy library: which policy a context gets, by the library's own law.

const NONE = 4294967295;
const LEAF = 255;

/**
 * What a context gets: `policy` −1 for none, `status` as the library calls it.
 * @typedef {{ policy: number, status: string, margin: number, region: number }} Choice
 */

/** The regions of a library. */
export class Shelf {
  /**
   * @param {any} about
   * @param {Record<string, any>} arrays
   */
  constructor(about, arrays) {
    this.about = about;
    this.kind = about.regions.kind;
    this.regions = about.regions;
    this.arrays = arrays;
  }

  /** @param {number} region number of its policy, −1 for none. */
  policyOf(region) {
    const policy = this.arrays.policy[region];
    return policy === NONE ? -1 : policy;
  }

  /** @param {number} region whether its policy is known to serve, by proof or by estimate. */
  isServed(region) {
    return this.about.guarantee.speaks && this.arrays.served[region] === 1;
  }

  /**
   * The region of a context inside of the range.
   * @param {number[]} row value on each axis.
   */
  locate(row) {
    const { arrays, regions } = this;
    if (this.kind === "boxes") {
      let node = 0;
      while (arrays.axis[node] !== LEAF) {
        node = row[arrays.axis[node]] <= arrays.cut[node] ? node + 1 : arrays.follow[node];
      }
      return arrays.follow[node];
    }
    return row.reduce((sum, x, a) => {
      const borders = regions.borders[a];
      return sum * (borders.length + 1) + below(borders, x);
    }, 0);
  }

  /**
   * Whether what is known of a region is known of this very context.
   * @param {number[]} row
   * @param {number} region
   */
  knows(row, region) {
    if (this.kind === "boxes" && !this.arrays.points) return true; // the whole box
    return this.node(region).every((v, a) => v === row[a]);
  }

  /** @param {number} region context of its node. */
  node(region) {
    if (this.arrays.points) {
      const d = this.about.names.length;
      return Array.from(this.arrays.points.subarray(region * d, (region + 1) * d));
    }
    /** @type {number[]} */
    const at = [];
    let rest = region;
    [...this.regions.values].reverse().forEach((/** @type {number[]} */ values) => {
      at.unshift(values[rest % values.length]);
      rest = Math.floor(rest / values.length);
    });
    return at;
  }

  /**
   * @param {number[]} row a context.
   * @returns {Choice}
   */
  select(row) {
    const { low, high, outside } = this.about;
    const finite = row.every(Number.isFinite);
    const inside = row.every((x, a) => x >= low[a] && x <= high[a]);
    const safe = row.map((x, a) => Math.min(high[a], Math.max(low[a], finite ? x : low[a])));
    const region = this.locate(safe);
    const policy = this.policyOf(region);
    if (!finite || policy < 0 || (outside === "refuse" && !inside)) {
      return { policy: -1, status: "refused", margin: NaN, region: finite ? region : -1 };
    }
    const margin = this.arrays.margin[region];
    const known = inside && this.about.guarantee.speaks && this.knows(row, region);
    let status = inside ? "inside" : "outside";
    if (known && this.isServed(region)) status = this.about.guarantee.status;
    else if (known && margin < 0) status = "failing";
    return { policy, region, margin, status };
  }
}

/**
 * How many borders lie below a value; on a border the lower region is used.
 * @param {number[]} borders ascending.
 * @param {number} x
 */
function below(borders, x) {
  let [low, high] = [0, borders.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (borders[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * @param {import("./data.js").Page} page
 * @returns {Promise<Shelf>}
 */
export async function openShelf(page) {
  const about = page.header.library;
  /** @type {Record<string, any>} */
  const arrays = {};
  for (const [name, value] of Object.entries(about.regions)) {
    if (value && typeof value === "object" && "blob" in value) {
      arrays[name] = await page.arrays.get(/** @type {any} */ (value));
    }
  }
  return new Shelf(about, arrays);
}
