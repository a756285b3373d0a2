// A policy at work: at the chosen context, beside its own source.

import { h, isDark, show } from "./dom.js";
import { number } from "./numbers.js";

/** @typedef {import("./view.js").View} View */

const STAGE = { w: 300, h: 190 };

/**
 * A trajectory to draw.
 * @typedef {{ label: string, states: Float32Array, offset: number, n: number, end: number,
 *   score: number | null, size: number }} Track
 */

/**
 * The embedded pair nearest to a target, served by this source if there is one.
 * @param {View} view
 * @param {number} source
 * @param {number} target
 */
function nearestPair(view, source, target) {
  const { play, targets } = view.page.header;
  const n = targets.axes.length;
  const all = view.page.targetContexts;
  const far = (/** @type {number} */ i) => {
    const t = play.targets[i];
    if (t === target) return -1;
    if (!all) return Infinity;
    let sum = 0;
    for (let a = 0; a < n; a += 1) {
      const axis = targets.axes[a];
      sum += ((all[t * n + a] - all[target * n + a]) / (axis.high - axis.low || 1)) ** 2;
    }
    return sum;
  };
  return play.sources.reduce((/** @type {number} */ best, /** @type {number} */ s, /** @type {number} */ i) =>
    (s === source && (best < 0 || far(i) < far(best)) ? i : best), -1);
}

/**
 * @param {View} view
 * @param {number} source
 * @param {number} target
 * @returns {any}
 */
export function playPart(view, source, target) {
  const { page } = view;
  const { play } = page.header;
  const box = h("div", { class: "play" });
  const start = async () => {
    const pair = nearestPair(view, source, target);
    if (pair < 0) {
      show(box, h("p", { class: "hint" }, "Trajectories in this file are those of the first question's cover; this source is not in it."));
      return;
    }
    const [away, home] = await Promise.all([page.arrays.get(play.away), page.arrays.get(play.home)]);
    const n = play.away.shape[1] * play.away.shape[2];
    const at = play.home_of[pair];
    const shown = play.targets[pair];
    const tracks = [
      { label: `at ${page.name("target", shown)}${shown === target ? "" : " (the nearest in this file)"}`, states: away, offset: pair * n, n: play.away.shape[2], end: play.away_ends[pair], score: play.away_scores[pair], size: play.away_sizes[pair] },
      { label: `at home, ${page.name("source", source)}`, states: home, offset: at * n, n: play.home.shape[2], end: play.home_ends[at], score: play.home_scores[at], size: play.home_sizes[at] },
    ];
    show(box, stage(play, tracks));
  };
  show(box, h("button", { type: "button", class: "start-play", onclick: start }, "Play this policy here and at home"));
  return box;
}

/**
 * @param {any} data
 * @param {Track[]} tracks
 */
function stage(data, tracks) {
  const zoom = Math.min(2, window.devicePixelRatio || 1);
  const canvases = tracks.map(() => h("canvas", {
    width: STAGE.w * zoom, height: STAGE.h * zoom, class: "stage", role: "img",
    "aria-label": "The system in motion",
  }));
  const moments = data.away.shape[1];
  const slider = h("input", { type: "range", min: 0, max: moments - 1, value: 0, "aria-label": "Moment" });
  const clock = h("output");
  let moment = 0;
  let last = 0;
  let running = false;
  const draw = () => {
    tracks.forEach((track, i) => drawTrack(canvases[i], data, track, Math.floor(moment), zoom));
    slider.value = String(Math.floor(moment));
    clock.textContent = ` ${number(Math.floor(moment) * data.seconds, 3)} s`;
  };
  const tick = (/** @type {number} */ now) => {
    if (!running || !canvases[0].isConnected) return;
    moment += (now - last) / 1000 / data.seconds;
    last = now;
    if (moment >= moments - 1) {
      moment = moments - 1;
      running = false;
      button.textContent = "Again";
    }
    draw();
    requestAnimationFrame(tick);
  };
  const toggle = () => {
    if (moment >= moments - 1) moment = 0;
    running = !running;
    button.textContent = running ? "Pause" : "Go on";
    last = performance.now();
    if (running) requestAnimationFrame(tick);
  };
  const button = h("button", { type: "button", class: "small run-play", onclick: toggle }, "Start");
  slider.addEventListener("input", () => { running = false; moment = Number(slider.value); button.textContent = "Go on"; draw(); });
  draw();
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) toggle();
  return h("div", {},
    h("div", { class: "stages" }, tracks.map((track, i) => h("figure", {}, canvases[i],
      h("figcaption", {}, h("b", {}, track.label),
        track.score === null ? "" : `, return ${number(track.score, 5)}`)))),
    h("p", { class: "budget" }, button, slider, clock),
    h("p", { class: "hint" }, `The same policy in both${data.which ? ` (${data.which})` : ""}: ${data.start}.`));
}

/**
 * @param {any} canvas
 * @param {any} data
 * @param {Track} track
 * @param {number} moment
 * @param {number} zoom
 */
function drawTrack(canvas, data, track, moment, zoom) {
  const c = canvas.getContext("2d");
  c.setTransform(zoom, 0, 0, zoom, 0, 0);
  c.clearRect(0, 0, STAGE.w, STAGE.h);
  const dark = isDark();
  const ink = dark ? "#e8eaed" : "#1c2024";
  const over = moment > track.end;
  const at = track.offset + Math.min(moment, track.end) * track.n;
  const state = track.states.subarray(at, at + track.n);
  c.strokeStyle = ink;
  c.fillStyle = ink;
  c.lineWidth = 2;
  c.font = "13px sans-serif";
  if (data.scene === "cart-pole") cartPole(c, state, track.size, over);
  else if (data.scene === "pendulum") pendulum(c, state);
  else if (data.scene === "mass") mass(c, state);
  else lines(c, data, track, moment);
  if (over) {
    c.fillStyle = dark ? "#ff8f78" : "#a3260f";
    c.fillText("fell", 10, 20);
  }
}

/**
 * @param {any} c
 * @param {Float32Array} state x, its velocity, the angle, its velocity.
 * @param {number} size half of the pole's length, in metres.
 * @param {boolean} over
 */
function cartPole(c, state, size, over) {
  const ground = 150;
  const scale = STAGE.w / 5.2; // the track is 4.8 m wide
  const x = STAGE.w / 2 + state[0] * scale;
  c.beginPath();
  c.moveTo(STAGE.w / 2 - 2.4 * scale, ground + 12);
  c.lineTo(STAGE.w / 2 + 2.4 * scale, ground + 12);
  c.stroke();
  c.fillStyle = "#0072b2";
  c.fillRect(x - 18, ground - 8, 36, 18);
  const length = 26 + 95 * Math.min(1, size / 5);
  c.strokeStyle = over ? "#d55e00" : "#e69f00";
  c.lineWidth = 7;
  c.lineCap = "round";
  c.beginPath();
  c.moveTo(x, ground - 8);
  c.lineTo(x + length * Math.sin(state[2]), ground - 8 - length * Math.cos(state[2]));
  c.stroke();
}

/**
 * @param {any} c
 * @param {Float32Array} state angle from upright, its velocity.
 */
function pendulum(c, state) {
  const [x, y] = [STAGE.w / 2, STAGE.h / 2];
  c.strokeStyle = "#e69f00";
  c.lineWidth = 9;
  c.lineCap = "round";
  c.beginPath();
  c.moveTo(x, y);
  c.lineTo(x + 75 * Math.sin(state[0]), y - 75 * Math.cos(state[0]));
  c.stroke();
  c.beginPath();
  c.arc(x, y, 5, 0, 7);
  c.fill();
}

/**
 * @param {any} c
 * @param {Float32Array} state position, velocity.
 */
function mass(c, state) {
  const wall = 14;
  const y = 110;
  const x = STAGE.w / 2 + Math.max(-1.4, Math.min(1.4, state[0])) * 85;
  c.beginPath();
  c.moveTo(wall, 60);
  c.lineTo(wall, 140);
  c.lineTo(STAGE.w - 10, 140);
  c.stroke();
  c.setLineDash([3, 4]);
  c.beginPath();
  c.moveTo(STAGE.w / 2, 60);
  c.lineTo(STAGE.w / 2, 140);
  c.stroke();
  c.setLineDash([]);
  c.beginPath();
  c.moveTo(wall, y);
  for (let i = 1; i < 16; i += 1) c.lineTo(wall + ((x - 22 - wall) * i) / 16, y + (i % 2 ? -9 : 9));
  c.lineTo(x - 22, y);
  c.stroke();
  c.fillStyle = "#0072b2";
  c.fillRect(x - 22, y - 28, 44, 56);
}

/**
 * @param {any} c
 * @param {any} data
 * @param {Track} track
 * @param {number} moment
 */
function lines(c, data, track, moment) {
  const moments = data.away.shape[1];
  const colours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];
  for (let s = 0; s < track.n; s += 1) {
    let most = 1e-9;
    for (let m = 0; m < moments; m += 1) most = Math.max(most, Math.abs(track.states[track.offset + m * track.n + s]));
    c.strokeStyle = colours[s % colours.length];
    c.lineWidth = 1.5;
    c.beginPath();
    for (let m = 0; m <= moment; m += 1) {
      const y = STAGE.h / 2 - (track.states[track.offset + m * track.n + s] / most) * (STAGE.h / 2 - 8);
      c.lineTo((m / moments) * STAGE.w, y);
    }
    c.stroke();
  }
}
