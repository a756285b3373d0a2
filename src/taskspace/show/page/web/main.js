// The page: opens its data and shows what it is about.

import { embedded } from "./data.js";
import { explore } from "./explore.js";

const page = await embedded().open();
const parts = await explore(page);
// For scripts in the console: the data, and the views of it.
Object.assign(globalThis, { taskspace: { page, ...parts } });
document.documentElement.dataset.ready = "yes";
performance.mark("ready");
