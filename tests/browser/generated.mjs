// Generated profiles whose names are shared by modules, processes, kinds of code and recursion, and what pictures say of them as numbers.

import assert from "node:assert/strict";

/** mulberry32. */
export function random(seed) {
  return () => {
    seed = seed + 0x6d2b79f5 | 0;
    let t = Math.imul(seed ^ seed >>> 15, 1 | seed);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 4294967296;
  };
}

// Names that several modules, processes and kinds of code have.
const NAMES = ["main", "_start", "memcpy", "parse", "JSON::read", "json_read", "a::b<c>", "x+y", "operator new", "zz", "app", "naïve",
  "JS:~render /srv/app.js:3:1", "JS:*render /srv/app.js:3:1", "java.util.TimSort.mergeLo", "shop::Cart::add", "depot::Cart::add",
  "std::vector<std::pair<int, long>, std::allocator<int> >::push_back"];
const MODULES = ["/usr/bin/alpha", "/usr/bin/beta", "/lib/libc.so.6", "[kernel.kallsyms]", "/tmp/perf-7.map", "inlined"];
const KINDS = { "[kernel.kallsyms]": "kernel", "/tmp/perf-7.map": "compiled at run time", inlined: "inlined" };

/** Samples: { time in ns since the first, tid, comm, cpu, value, frames from the root: { name, label, module, kind } }. */
export function samplesOf(next, isTimed) {
  const pick = (list) => list[Math.floor(next() * list.length)];
  const samples = [];
  let time = 0;
  const callers = [];
  for (let left = 20 + Math.floor(next() * 100); left > 0; left--) {
    // Stacks that begin as others did, and recursion.
    const frames = callers.length && next() < 0.6 ? pick(callers).slice(0, 1 + Math.floor(next() * 4)) : [];
    for (let more = (frames.length ? 0 : 1) + Math.floor(next() * 4); more > 0; more--) {
      if (frames.length && next() < 0.15) { frames.push(pick(frames)); continue; }
      const module = isTimed ? pick(MODULES) : "";
      const mark = !isTimed && next() < 0.2 ? pick(["_[k]", "_[j]", "_[i]"]) : "";
      frames.push({ name: pick(NAMES) + mark, module: module === "inlined" ? "" : module,
        kind: KINDS[module] ?? { "_[k]": "kernel", "_[j]": "compiled at run time", "_[i]": "inlined" }[mark] ?? "user" });
    }
    callers.push(frames);
    const tid = 70 + Math.floor(next() * 3);
    samples.push({ time, tid, comm: ["main", "app", "worker"][tid - 70], cpu: Math.floor(next() * 2),
      value: isTimed ? 1_000_000 : 1 + Math.floor(next() * 50), frames });
    time += 10_000_000 * (1 + Math.floor(next() * 5));
  }
  return samples;
}
export function scriptText(samples) {
  return samples.map(({ time, tid, comm, cpu, value, frames }) =>
    `${comm} 70/${tid} [00${cpu}] ${((5e9 + time) / 1e9).toFixed(9)}: ${value} cycles:\n` +
    [...frames].reverse().map(({ name, module, kind }) => `\t10 ${name} (${kind === "inlined" ? "inlined" : module})\n`).join("") + "\n").join("");
}
export const foldedText = (samples) => samples.map(({ frames, value }) => `${frames.map((of) => of.name).join(";")} ${value}\n`).join("");

export const shown = (name) => name.replace(/_\[[kij]\]$/, "");

export const number = (text) => Number(text.replace(/[,−]/g, (c) => c === "−" ? "-" : ""));
export function isShare(text, part, whole, where) {
  assert.ok(Math.abs(number(text) - (whole ? 100 * part / whole : 0)) < 0.00501, `${where}: ${text} % is not ${part} of ${whole}`);
}
/** The kind of code by the hue of a colour, in OKLCH (Björn Ottosson, 2020). */
export function hueOf([r, g, b]) {
  const [R, G, B] = [r, g, b].map((c) => c / 255 <= 0.04045 ? c / 255 / 12.92 : Math.pow((c / 255 + 0.055) / 1.055, 2.4));
  const l = Math.cbrt(0.4122214708 * R + 0.5363325363 * G + 0.0514459929 * B);
  const m = Math.cbrt(0.2119034982 * R + 0.6806995451 * G + 0.1073969566 * B);
  const s = Math.cbrt(0.0883024619 * R + 0.2817188376 * G + 0.6299787005 * B);
  const [x, y] = [1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
  return { chroma: Math.hypot(x, y), hue: (Math.atan2(y, x) * 180 / Math.PI + 360) % 360 };
}
const HUES = { user: 53, inlined: 109, "compiled at run time": 150, kernel: 262 };
export const nearest = (hue) => Object.keys(HUES).reduce((a, b) => Math.abs(HUES[a] - hue) <= Math.abs(HUES[b] - hue) ? a : b);
