// Elements. Text only ever becomes a text node, so a name can hold anything.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Give an element its attributes, listeners and children.
 * @template {Element} T
 * @param {T} element
 * @param {Record<string, any>} props `on…` are listeners; false and null are left out.
 * @param {any[]} children nodes, text, or nested lists of them.
 * @returns {T}
 */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  const flat = children.flat(Infinity).filter((c) => c !== null && c !== undefined);
  element.append(...flat.map((c) => (c instanceof Node ? c : String(c))));
  return element;
}

/**
 * An HTML element.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...any} children
 * @returns {any}
 */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...any} children
 * @returns {any}
 */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/**
 * Replace everything inside an element.
 * @param {Element} element
 * @param {...any} children
 */
export function show(element, ...children) {
  element.replaceChildren();
  fill(element, {}, children);
}

/**
 * Put a canvas inside a plot so that both grow and shrink together, also in print.
 * @param {any} plot
 * @param {any} canvas
 * @param {{ margin: { left: number, top: number }, w: number, height: number }} size
 * @param {{ width: number, height: number }} whole size of the plot.
 */
export function placeCanvas(plot, canvas, size, whole) {
  const across = (/** @type {number} */ v) => `${(100 * v) / whole.width}%`;
  const down = (/** @type {number} */ v) => `${(100 * v) / whole.height}%`;
  plot.style.aspectRatio = `${whole.width} / ${whole.height}`;
  Object.assign(canvas.style, {
    left: across(size.margin.left), top: down(size.margin.top), width: across(size.w),
    height: down(size.height),
  });
}

/**
 * Where on a canvas a pointer is, in the units in which it was drawn.
 * @param {MouseEvent} event
 * @param {any} canvas
 * @param {{ w: number, height: number } | undefined} size
 * @returns {[number, number]}
 */
export function pointOn(event, canvas, size) {
  if (!size) return [-1, -1];
  return [(event.offsetX * size.w) / canvas.clientWidth, (event.offsetY * size.height) / canvas.clientHeight];
}

/**
 * Show words beside the pointer.
 * @param {any} map with a tip over its plot.
 * @param {number} px
 * @param {number} py
 * @param {any} content
 */
export function showTip(map, px, py, content) {
  const { tip, plot, size: { margin } } = map;
  show(tip, content);
  tip.hidden = false;
  const left = margin.left + px;
  const flip = left > plot.clientWidth - 210;
  Object.assign(tip.style, {
    left: flip ? "auto" : `${left + 14}px`,
    right: flip ? `${plot.clientWidth - left + 14}px` : "auto",
    top: `${margin.top + py + 12}px`,
  });
}

/**
 * A map as an SVG document of its own.
 * @param {any} map with a canvas below its overlay.
 */
export function svgFile({ overlay, canvas, size: { margin, w, height } }) {
  const copy = overlay.cloneNode(true);
  copy.prepend(svg("style", {},
    "text{font:12px sans-serif}.label{font-size:13px}.frame,.chosen,.picked{fill:none;stroke:#555}"
    + ".axis{stroke:#555}.source{stroke:#000;stroke-width:1.2}.number,.strong{font-weight:600}"
    + ".pick{stroke:#000;stroke-width:2}.pick-back{stroke:#fff;stroke-width:4}"),
  svg("image", {
    x: margin.left, y: margin.top, width: w, height, href: canvas.toDataURL("image/png"),
    preserveAspectRatio: "none",
  }));
  const [, , width, whole] = copy.getAttribute("viewBox").split(" ");
  Object.entries({ xmlns: SVG, width, height: whole }).forEach(([k, v]) => copy.setAttribute(k, v));
  copy.removeAttribute("class");
  return new XMLSerializer().serializeToString(copy);
}

/**
 * A table with a head.
 * @param {string[]} head
 * @param {any[][]} rows cells; numbers are set to the right.
 * @param {string} [label] for screen readers.
 */
export function grid(head, rows, label) {
  const cell = (/** @type {any} */ value) =>
    h("td", { class: typeof value === "string" && /^[-−\d≈<∞]/.test(value) ? "num" : null }, value);
  return h("div", { class: "scroll" },
    h("table", { "aria-label": label ?? null },
      h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
}

/**
 * Hand a file to the reader.
 * @param {string} name
 * @param {string} type
 * @param {string} text
 */
export function download(name, type, text) {
  const link = h("a", {
    download: name,
    href: URL.createObjectURL(new Blob([text], { type })),
  });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Whether the reader's system asks for a dark page. */
export function isDark() {
  const forced = document.documentElement.dataset.theme;
  if (forced) return forced === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
