// What every page has around its pictures: heading, warnings, and how it was made.

import { h } from "./dom.js";

/**
 * A part of the page that can be folded.
 * @param {string} title
 * @param {any} content
 * @param {boolean} [open]
 */
export function part(title, content, open = false) {
  return h("details", { class: "part", open }, h("summary", {}, title), content);
}

/**
 * @param {any} about text around the pictures.
 * @param {string} subtitle
 * @param {any[]} buttons
 */
export function heading(about, subtitle, buttons) {
  return [
    h("header", {},
      h("div", {}, h("h1", {}, about.title), h("p", { class: "subtitle" }, subtitle)),
      h("div", { class: "buttons" }, buttons)),
    (about.warnings ?? []).length
      ? h("ul", { class: "warnings" }, about.warnings.map((/** @type {string} */ w) => h("li", {}, w))) : null,
  ];
}

/**
 * @param {any} about
 * @param {any[]} parts of this kind of page.
 * @param {string} hint
 */
export function ending(about, parts, hint) {
  return h("footer", {}, parts,
    part("How to do it again", h("pre", {}, about.reproduce)),
    part("Versions", h("pre", {}, about.versions)),
    part("Citation", h("pre", {}, about.citation)),
    h("p", { class: "hint" }, `This file needs no network and sends nothing. ${hint}`));
}

/** @param {() => void} redraw called after the change. */
export function themeButton(redraw) {
  const change = () => {
    const root = document.documentElement;
    const dark = root.dataset.theme === "dark"
      || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    root.dataset.theme = dark ? "light" : "dark";
    redraw();
  };
  return h("button", { type: "button", class: "theme", onclick: change }, "Light or dark");
}

/** @param {() => void} redraw called when the window's width or colours change. */
export function followWindow(redraw) {
  let width = document.body.clientWidth;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    redraw();
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

/** @param {string} fragment put into the address, without a new entry of its history. */
export function setFragment(fragment) {
  if (fragment === location.hash) return;
  try {
    history.replaceState(null, "", fragment);
  } catch {
    location.hash = fragment;
  }
}
