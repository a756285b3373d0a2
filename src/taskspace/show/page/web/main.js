// The page: opens its data and shows what it is about.

import { embedded } from "./data.js";
import { h } from "./dom.js";
import { explore } from "./explore.js";
import { showLibrary } from "./library.js";
import { Server } from "./live.js";

const page = await embedded().open();
if (page.header.live) page.serve = new Server(page.arrays);
const progress = h("div", { class: "progress", role: "status" });
const parts = page.header.library ? await showLibrary(page, progress) : await explore(page, progress);
// For scripts in the console: the data, and the views of it.
Object.assign(globalThis, { taskspace: { page, ...parts } });
document.documentElement.dataset.ready = "yes";
performance.mark("ready");
page.serve?.follow(page.header.live.number, progress);
