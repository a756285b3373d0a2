// The explorer of a table: one panel or two, what was asked, and how to do it again.

import { grid, h, isDark, show } from "./dom.js";
import { historyPart } from "./history.js";
import { count } from "./numbers.js";
import { Panel } from "./panel.js";

const KINDS = /** @type {Record<string, string>} */ ({
  exact: "exact numbers", computed: "numbers in double precision", sampled: "means of episodes", given: "given numbers",
});

/**
 * @param {import("./data.js").Page} page
 */
export async function explore(page) {
  const { about, sources, targets, provenance, layers } = page.header;
  /** @type {Panel[]} */
  const panels = [];
  const place = h("div", { class: "panels" });
  const write = () => {
    const state = new URLSearchParams();
    panels.forEach((panel) => panel.write(state));
    return `#${state.toString()}`;
  };
  const update = () => panels.forEach((panel) => (panel.view ? panel.update() : null));

  /**
   * @param {string} prefix
   * @param {URLSearchParams} from
   */
  async function addPanel(prefix, from) {
    const panel = new Panel(page, prefix, () => setFragment(write()));
    place.append(panel.element);
    panels.push(panel);
    place.classList.toggle("two", panels.length > 1);
    await panel.setLayer(from.get(`${prefix}c`) ?? layers[0].key, from);
  }

  const name = () => {
    place.classList.toggle("two", panels.length > 1);
    compare.textContent = panels.length > 1 ? "One question" : "Compare two questions";
  };

  async function restore() {
    const state = new URLSearchParams(location.hash.slice(1));
    panels.splice(0).forEach((panel) => panel.element.remove());
    await addPanel("", state);
    if (state.has("b.c")) {
      await addPanel("b.", state);
      await panels[0].update(); // it has only half the width now
    }
    name();
  }

  async function toggleSecond() {
    if (panels.length > 1) {
      panels.pop()?.element.remove();
    } else {
      const copy = new URLSearchParams();
      panels[0].write(copy);
      await addPanel("b.", new URLSearchParams([...copy].map(([k, v]) => [`b.${k}`, v])));
    }
    name();
    update();
  }

  const compare = h("button", { type: "button", class: "compare", onclick: toggleSecond }, "Compare two questions");
  const subtitle = [about.system, `${count(sources.n)} sources`, `${count(targets.n)} targets`,
    KINDS[provenance]].filter(Boolean).join(" · ");
  const isExact = layers.every((/** @type {any} */ l) => l.loss.exact);
  const change = () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    update();
  };
  show(document.body,
    h("header", {},
      h("div", {}, h("h1", {}, about.title), h("p", { class: "subtitle" }, subtitle)),
      h("div", { class: "buttons" }, compare,
        h("button", { type: "button", class: "theme", onclick: change }, "Light or dark"))),
    about.warnings?.length
      ? h("ul", { class: "warnings" }, about.warnings.map((/** @type {string} */ w) => h("li", {}, w))) : null,
    place,
    h("footer", {},
      page.header.selection ? part("How it was found", historyPart(page), true) : null,
      certificatesPart(page),
      about.settings ? part("Settings", h("pre", {}, about.settings)) : null,
      part("What the words mean", grid(["question", "loss of policy π of source s at target t"],
        layers.map((/** @type {any} */ l) => [l.label, l.summary]))),
      part("How to do it again", h("pre", {}, about.reproduce)),
      part("Versions", h("pre", {}, about.versions)),
      h("p", { class: "hint" }, `This file needs no network and sends nothing. Counts, sizes, bounds and who serves whom are exact at every step of the slider${isExact ? "." : "; losses marked ≈ are rounded for display."}`)));
  addEventListener("hashchange", () => {
    if (write() !== location.hash) restore();
  });
  let width = document.body.clientWidth;
  new ResizeObserver(() => {
    if (document.body.clientWidth !== width) update();
    width = document.body.clientWidth;
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
  await restore();
  return { panels };
}

/**
 * A part of the page that can be folded.
 * @param {string} title
 * @param {any} content
 * @param {boolean} [open]
 */
function part(title, content, open = false) {
  return h("details", { class: "part", open }, h("summary", {}, title), content);
}

/** @param {string} fragment put into the address, without a new entry of its history. */
function setFragment(fragment) {
  if (fragment === location.hash) return;
  try {
    history.replaceState(null, "", fragment);
  } catch {
    location.hash = fragment;
  }
}

/** @param {import("./data.js").Page} page */
function certificatesPart(page) {
  const { certificates } = page.header;
  if (!certificates) return null;
  return certificates.map((/** @type {any} */ one) => {
    const rows = one.items.filter((/** @type {any} */ i) => i.kind !== "vacuous")
      .map((/** @type {any} */ i) => [i.name, i.holds ? "yes" : "no",
        h("span", { class: `badge ${i.kind}` }, i.kind), i.scope, i.why]);
    return part(`Certificates: ${one.question}`,
      grid(["certificate", "holds", "kind", "of", "why"], rows, "Certificates"));
  });
}
