// The error of measured contexts: a slider over the multiples that the page knows.

import { h } from "./dom.js";

/** @param {any} about of a layer; how large its error is, 0 for none. */
const amount = (about) => (about.error ? about.error.amount : 0);

/** @param {string} key of a layer; what it asks beside the error. */
export const exactKey = (key) => key.split("@")[0];

/** A slider that is there where a question has layers with an error. */
export class ErrorSlider {
  /**
   * @param {any[]} layers of the page's header.
   * @param {(key: string) => void} choose told the layer to show.
   */
  constructor(layers, choose) {
    this.layers = layers;
    /** @type {any[]} layers of the question that is shown, by error. */
    this.steps = [];
    this.input = h("input", {
      type: "range", min: 0, class: "error", "aria-label": "Error of the measured context",
      oninput: () => choose(this.steps[Number(this.input.value)].key),
    });
    this.words = h("output", { class: "error-words" });
    this.element = h("label", { class: "wide" }, "error ", this.input, this.words);
  }

  /** @param {any} about of the layer that is shown. */
  draw(about) {
    this.steps = this.layers.filter((l) => exactKey(l.key) === exactKey(about.key))
      .sort((a, b) => amount(a) - amount(b));
    const words = about.error?.words ?? "none";
    this.element.hidden = this.steps.length < 2;
    this.input.max = String(this.steps.length - 1);
    this.input.value = String(this.steps.findIndex((l) => l.key === about.key));
    this.input.setAttribute("aria-valuetext", words);
    this.words.textContent = words;
  }
}
