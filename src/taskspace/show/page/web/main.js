// The page: one panel or two, what was asked, and how to do it again.

import { embedded } from "./data.js";
import { grid, h, show } from "./dom.js";
import { count } from "./numbers.js";
import { Server } from "./live.js";
import { Panel } from "./panel.js";

const page = await embedded().open();
if (page.header.live) page.serve = new Server(page.arrays);
const { about, sources, targets, provenance } = page.header;
const KINDS = /** @type {Record<string, string>} */ ({
  exact: "exact numbers", sampled: "means of episodes", given: "given numbers",
});

const progress = h("div", { class: "progress", role: "status" });

/** @type {Panel[]} */
const panels = [];
const place = h("div", { class: "panels" });

function remember() {
  const state = new URLSearchParams();
  panels.forEach((panel) => panel.write(state));
  const fragment = `#${state.toString()}`;
  if (fragment !== location.hash) {
    try {
      history.replaceState(null, "", fragment);
    } catch {
      location.hash = fragment;
    }
  }
}

/**
 * @param {string} prefix
 * @param {URLSearchParams} from
 */
async function addPanel(prefix, from) {
  const panel = new Panel(page, prefix, remember);
  place.append(panel.element);
  panels.push(panel);
  place.classList.toggle("two", panels.length > 1);
  await panel.setLayer(from.get(`${prefix}c`) ?? page.header.layers[0].key, from);
  return panel;
}

async function restore() {
  const state = new URLSearchParams(location.hash.slice(1));
  panels.splice(0).forEach((panel) => panel.element.remove());
  await addPanel("", state);
  if (state.has("b.c")) {
    await addPanel("b.", state);
    await panels[0].update(); // it has only half the width now
  }
  compare.textContent = panels.length > 1 ? "One question" : "Compare two questions";
}

async function toggleSecond() {
  if (panels.length > 1) {
    panels.pop()?.element.remove();
  } else {
    const copy = new URLSearchParams();
    panels[0].write(copy);
    await addPanel("b.", new URLSearchParams([...copy].map(([k, v]) => [`b.${k}`, v])));
  }
  place.classList.toggle("two", panels.length > 1);
  compare.textContent = panels.length > 1 ? "One question" : "Compare two questions";
  panels.forEach((panel) => panel.update());
}

const compare = h("button", { type: "button", class: "compare", onclick: toggleSecond }, "Compare two questions");

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme === "dark"
    || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.theme = dark ? "light" : "dark";
  panels.forEach((panel) => panel.update());
}

/**
 * @param {string} title
 * @param {any} content
 * @param {boolean} [open]
 */
function part(title, content, open = false) {
  return h("details", { class: "part", open }, h("summary", {}, title), content);
}

show(document.body,
  h("header", {},
    h("div", {}, h("h1", {}, about.title),
      h("p", { class: "subtitle" },
        [about.system, `${count(sources.n)} sources`, `${count(targets.n)} targets`, KINDS[provenance]].filter(Boolean).join(" · "))),
    h("div", { class: "buttons" }, compare,
      h("button", { type: "button", class: "theme", onclick: switchTheme }, "Light or dark"))),
  (about.warnings ?? []).length
    ? h("ul", { class: "warnings" }, about.warnings.map((/** @type {string} */ w) => h("li", {}, w))) : null,
  progress,
  place,
  h("footer", {},
    about.tables?.map((/** @type {any} */ t) => part(t.title, grid(t.head, t.rows, t.title), true)),
    about.settings ? part("Settings", h("pre", {}, about.settings)) : null,
    part("What the words mean", grid(["criterion", "loss of policy π of source s at target t"],
      page.header.layers.map((/** @type {any} */ l) => [`${l.criterion} (${l.judge} policy of each source)`, l.summary]))),
    part("How to do it again", h("pre", {}, about.reproduce)),
    part("Versions", h("pre", {}, about.versions)),
    part("Citation", h("pre", {}, about.citation)),
    h("p", { class: "hint" }, "This file needs no network and sends nothing. Counts, sizes, bounds and who serves whom are exact at every step of the slider",
      page.header.layers.every((/** @type {any} */ l) => l.loss.exact) ? "." : "; losses marked ≈ are rounded for display.")));

addEventListener("hashchange", () => {
  const state = new URLSearchParams();
  panels.forEach((panel) => panel.write(state));
  if (`#${state.toString()}` !== location.hash) restore();
});
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  panels.forEach((panel) => panel.update());
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => panels.forEach((p) => p.update()));
await restore();
// For scripts in the console: the data, and the panels with their views.
Object.assign(globalThis, { taskspace: { page, panels } });
document.documentElement.dataset.ready = "yes";
performance.mark("ready");
page.serve?.follow(page.header.live.number, progress);
