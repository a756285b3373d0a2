// A page that comes from a server: rows that it does not hold, and what is new.

import { Arrays } from "./data.js";
import { h, show } from "./dom.js";

/** The server of this page. */
export class Server {
  /** @param {Arrays} arrays where arrays that it sends are kept. */
  constructor(arrays) {
    this.arrays = arrays;
    this.token = new URLSearchParams(location.search).get("token");
    /** @type {Map<number, string>} */
    this.sent = new Map();
    this.next = 1_000_000;
    const { read } = arrays;
    arrays.read = async (blob) => this.sent.get(blob) ?? read(blob);
  }

  /**
   * @param {string} what
   * @param {Record<string, string | number>} [query]
   */
  async ask(what, query = {}) {
    const words = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) words.set(name, String(value));
    if (this.token) words.set("token", this.token);
    const answer = await fetch(`/api/${what}?${words}`);
    const value = await answer.json();
    if (!answer.ok) throw new Error(value.error);
    return value;
  }

  /**
   * Who serves whom by sources whose rows are not in the page.
   * @param {import("./view.js").View} view
   */
  async view(view) {
    const found = await this.ask("view", {
      key: view.layer.about.key, step: view.step, sources: view.sources.join("."),
      pick: view.pick,
    });
    const bytes = Uint8Array.from(atob(found.who), (c) => c.charCodeAt(0));
    return { ...found, who: new Int32Array(bytes.buffer) };
  }

  /**
   * Trajectories of any policy at any target.
   * @param {number} source
   * @param {number} target
   * @param {string} judge
   */
  async play(source, target, judge) {
    const found = await this.ask("play", { source, target, judge });
    for (const name of ["away", "home"]) {
      this.next += 1;
      this.sent.set(this.next, found[name].text);
      found[name] = { ...found[name], blob: this.next };
    }
    return found;
  }

  /**
   * Follow the path behind the page; a new page is loaded when there is one.
   * @param {number} number of the page that is shown.
   * @param {Element} place where progress is shown.
   */
  follow(number, place) {
    const look = async () => {
      try {
        const news = await this.ask("news");
        const open = Object.entries(news.progress).filter(([, [done, total]]) => done < total);
        show(place, open.map(([stage, [done, total]]) =>
          h("label", {}, `${stage} ${done} of ${total} `, h("progress", { max: total, value: done }))),
        news.trouble ? h("span", {}, news.trouble) : null);
        if (news.number !== number) location.reload();
      } catch {
        show(place, "The server has gone; this page still works.");
      }
      setTimeout(look, 1000);
    };
    look();
  }
}
