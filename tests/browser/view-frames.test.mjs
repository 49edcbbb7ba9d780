// Every frame of the page of `pyrograph view`, pointed at and clicked, in random states: tooltip, detail, chosen row, colour,
// what a search found, the address opened anew, Back and Forward. Numbers are compared with sums over the samples that the
// inputs here are written from; nothing is taken from the page's script. Run by ./run; PYROGRAPH_NIGHTLY=1 runs more of it: all
// frames are clicked, every fourth of these by the browser's mouse, and then opened anew, left and come back to.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";
import { BINARY, launch, travel } from "./browser.mjs";
import { foldedText, hueOf, isShare, nearest, number, random, samplesOf, scriptText, shown } from "./generated.mjs";

const NIGHTLY = Boolean(process.env.PYROGRAPH_NIGHTLY);
const STATES = Number(process.env.STATES ?? (NIGHTLY ? 300 : 8));
const FIRST_SEED = Number(process.env.SEED ?? 1);
const STATES_OF_A_PROFILE = NIGHTLY ? 6 : 2;
const ROW = 18;
const folder = mkdtempSync(join(tmpdir(), "pyrograph-frames-"));

// What is shown of the long ones, and all that is known where that is another text; others are shown as they are.
const SHORT = { "JS:~render /srv/app.js:3:1": "render", "JS:*render /srv/app.js:3:1": "render", "java.util.TimSort.mergeLo": "TimSort.mergeLo",
  "std::vector<std::pair<int, long>, std::allocator<int> >::push_back": "vector<\u2026>::push_back" };
const FULL = { "JS:~render /srv/app.js:3:1": "render /srv/app.js:3:1", "JS:*render /srv/app.js:3:1": "render /srv/app.js:3:1" };
const TIERS = { "JS:~render /srv/app.js:3:1": "interpreted", "JS:*render /srv/app.js:3:1": "optimized" };

/** Gives frames the labels that a page has, which are as long as tells them apart; functions of the kernel are others. */
function setLabels(samples, isShort) {
  const frames = samples.flatMap((of) => of.frames);
  const carts = new Set(frames.map((of) => of.name).filter((name) => name.includes("Cart::add")).map((name) => name.replace(/_\[[ij]\]$/, "")));
  for (const frame of frames) {
    const name = frame.name.replace(/_\[[ij]\]$/, "");
    const [bare, mark] = name.endsWith("_[k]") ? [name.slice(0, -4), "_[k]"] : [name, ""];
    const isOne = bare.endsWith("::Cart::add") && [...carts].every((of) => of === name || of.endsWith("_[k]") !== name.endsWith("_[k]"));
    frame.label = isShort ? (isOne ? "Cart::add" : SHORT[bare] ?? bare) + mark : frame.name;
    frame.full = isShort && FULL[bare] || bare;
    frame.tier = isShort ? TIERS[bare] ?? (frame.name.endsWith("_[j]") ? "optimized" : "") : "";
  }
  return samples;
}
/** What a sample's stack is in a state: rows, frames; null if it does not pass. */
function stackOf(sample, state, isTimed) {
  if (state.range && !(sample.time >= state.range[0] && sample.time < state.range[1])) { return null; }
  if (state.tid !== undefined && sample.tid !== state.tid) { return null; }
  const matches = (kind) => state.filters.filter((of) => of.kind === kind).map(({ text }) => text.startsWith("module:") ?
    { frame: (of) => of.module !== "" && new RegExp(text.slice(7)).test(of.module), row: () => false } :
    { frame: (of) => new RegExp(text).test(of.name), row: (name) => new RegExp(text).test(name) });
  const comm = isTimed ? sample.comm : "";
  const has = (of) => comm !== "" && of.row(comm) || sample.frames.some(of.frame);
  const [focus, ignore, hide, from] = ["focus", "ignore", "hide", "from-frame"].map(matches);
  if (!focus.every(has) || ignore.some(has)) { return null; }
  if (from.length && !from.some(has)) { return null; }
  let begun = from.length === 0 || comm !== "" && from.some((of) => of.row(comm));
  const rows = state.group === "thread" ? [`${comm}-70/${sample.tid}`] : state.group === "cpu" ? [`CPU ${sample.cpu}`] : [];
  if (comm && ["name", "cpu"].includes(state.group) && begun && !hide.some((of) => of.row(comm))) { rows.push(comm); }
  const frames = [];
  for (const frame of sample.frames) {
    begun ||= from.some((of) => of.frame(frame));
    if (!begun || hide.some((of) => of.frame(frame))) { continue; }
    const first = frames.findIndex((known) => known.label === frame.label);
    if (state.recursion && first >= 0) { frames.length = first + 1; continue; }
    frames.push(frame);
  }
  return { rows, frames };
}
/** What a frame is for the start of a thread, by the words of docs/viewer.md. */
function startPartOf({ name, module, kind }) {
  if (kind === "compiled at run time") { return "code"; }
  if (kind === "kernel") { return "none"; }
  if (!module) { return kind === "user" ? "row" : "none"; }
  return name === "_start" ? "always" : name === "main" || name.startsWith("std::") ? "leading" : "none";
}
/** Sets the rows that nodes are drawn in: what starts a thread is `folded` into one, which stands for so many `more`. */
function setRows(root, all) {
  const is = (node, ...parts) => node.starts.size === 1 && parts.some((part) => node.starts.has(part));
  const below = (node) => [...node.children.values()];
  const leads = (node) => below(node).some((child) => is(child, "code") || is(child, "always", "leading") && leads(child));
  const set = (node, level, goesOn, isIn) => {
    const isStart = !all && node !== root && goesOn && (is(node, "always") || is(node, "leading") && leads(node));
    node.folded = isStart && isIn;
    node.level = level + (node === root || node.folded ? 0 : 1);
    const isRow = node === root || goesOn && !isIn && is(node, "row");
    below(node).forEach((child) => set(child, node.level, isRow || isStart, isStart));
    node.more = Math.max(0, ...below(node).filter((of) => of.folded && of.total > 0).map((of) => of.more + 1));
  };
  set(root, 0, false, false);
}
/** The tree of names, with the values of the side that gives the widths, and `base` of the other; the functions by name and module. */
function expectOf(profile, state) {
  const { samples, isTimed } = profile;
  const sides = [[samples, state.range], ...(profile.older ? [[profile.older, null]] : state.base ? [[samples, state.base]] : [])];
  if (state.side === "before") { sides.reverse(); }
  const make = (name, isRow, parent) => ({ name, isRow, parent, total: 0, base: 0, own: 0, parts: new Map(), names: new Map(), starts: new Set(), children: new Map() });
  const root = make("all", false, null);
  const functions = new Map();
  const all = new Set([...samples, ...(profile.older ?? [])].flatMap((of) => of.frames.map((frame) => frame.label)));
  for (const [i, [side, range]] of sides.entries()) {
    const column = ["total", "base"][i];
    for (const sample of side) {
      const stack = stackOf(sample, { ...state, range }, isTimed);
      if (!stack) { continue; }
      let node = root;
      root[column] += sample.value;
      const on = new Set();
      for (const [i, of] of [...stack.rows, ...stack.frames].entries()) {
        const isRow = i < stack.rows.length;
        const name = isRow ? of : of.label;
        if (!node.children.has(name)) { node.children.set(name, make(name, isRow, node)); }
        node = node.children.get(name);
        node[column] += sample.value;
        // A process may have the name of a function beside it.
        node.starts.add(isRow ? "row" : startPartOf(of));
        if (isRow) { node.hasRow = true; continue; }
        const id = JSON.stringify([of.label, of.module]);
        on.add(id);
        const part = JSON.stringify([of.module, of.kind]);
        const known = node.parts.get(part) ?? { module: of.module, kind: of.kind, total: 0, base: 0 };
        known[column] += sample.value;
        node.parts.set(part, known);
        const own = node.names.get(of.name) ?? { full: of.full, tier: of.tier, total: 0, base: 0 };
        own[column] += sample.value;
        node.names.set(of.name, own);
      }
      if (column === "total") { node.own += sample.value; }
      for (const id of on) {
        const of = functions.get(id) ?? { self: 0, total: 0, base: 0 };
        of[column] += sample.value;
        if (column === "total" && stack.frames.length && id === JSON.stringify(["label", "module"].map((part) => stack.frames[stack.frames.length - 1][part]))) {
          of.self += sample.value;
        }
        functions.set(id, of);
      }
    }
  }
  setRows(root, state.all);
  // Left to right by name, rows that no function is called like last.
  const lay = (node, start, nodes) => {
    node.start = start;
    nodes.push(node);
    let at = start + node.own;
    const order = [...node.children.values()].sort((a, b) => {
      const last = (of) => of.isRow && !all.has(of.name) ? 1 : 0;
      return last(a) - last(b) || (a.name < b.name ? -1 : 1);
    });
    for (const child of order) {
      lay(child, at, nodes);
      at += child.total;
    }
    return nodes;
  };
  // Of two files, what filters left is a share of the whole still.
  const sum = (of) => of.reduce((whole, { value }) => whole + value, 0);
  const wholes = profile.older ? sides.map(([side]) => sum(side)) : [root.total, root.base];
  const names = new Map();
  for (const { label, name, full } of [...samples, ...(profile.older ?? [])].flatMap((of) => of.frames)) {
    names.set(label, (names.get(label) ?? new Set()).add(shown(name)).add(full));
  }
  return { root, functions, wholes, names, nodes: lay(root, 0, []) };
}

/** The address of a state, by the words of docs/viewer.md. */
function addressOf(state) {
  const parts = new URLSearchParams();
  for (const { kind, text } of state.filters) { parts.append(kind, text); }
  if (state.recursion) { parts.append("fold-recursion", ""); }
  if (state.tid !== undefined) { parts.append("tid", state.tid); }
  if (state.group !== "name") { parts.append("group", state.group); }
  for (const name of ["range", "base"]) { if (state[name]) { parts.append(name, state[name].map((time) => time / 1e9).join("..")); } }
  if (state.search) { parts.append("search", state.search); }
  if (state.side) { parts.append("side", state.side); }
  if (state.all) { parts.append("all", 1); }
  return `#${parts}`;
}
const PATTERNS = ["^main$", "^(_start|parse)$", "json", "JSON", "^app$", "module:libc", "module:beta", "naïve|zz", "\\+", "^JS:[*]", "util|std::", "^render$"];
function stateOf(next, profile) {
  const pick = (list) => list[Math.floor(next() * list.length)];
  const state = { filters: [], group: "name", range: null, base: null };
  const last = profile.samples[profile.samples.length - 1].time;
  const range = () => {
    const from = Math.floor(next() * last / 2 / 1e6) * 1e6;
    return [from, from + Math.floor((0.3 + next() * 0.7) * last / 2 / 1e6) * 1e6 + 1e6];
  };
  for (const kind of ["focus", "ignore", "hide", "from-frame"]) {
    if (next() < 0.2) { state.filters.push({ kind, text: pick(profile.isTimed ? PATTERNS : PATTERNS.filter((of) => !of.startsWith("module"))) }); }
  }
  if (next() < 0.2) { state.recursion = true; }
  if (profile.isTimed) {
    if (next() < 0.1) { state.tid = 71; }
    if (next() < 0.5) { state.group = pick(["thread", "cpu", "none"]); }
    if (next() < 0.5) { state.range = range(); }
    if (state.range && next() < 0.5) { state.base = range(); }
  }
  if (profile.older && next() < 0.5) { Object.assign(state, { filters: [], recursion: false }); }
  if ((profile.older || state.base) && next() < 0.3) { state.side = "before"; }
  state.all = next() < 0.3;
  if (next() < 0.4) { state.search = pick(["main", "json", "JSON", "(?i)Json", "^a", "[x-z]", "\\bread$", "module", "util", "JS:~", "allocator", "app[.]js"]); }
  return state;
}

/** Runs in the page: points at places of the canvas, and says what is told of each. */
function pointAll(points) {
  const canvas = document.getElementById("canvas");
  const box = canvas.getBoundingClientRect();
  const context = canvas.getContext("2d");
  // What most of the points inside of it have, beside the ring of what is chosen and the name.
  const colourOf = (x, y, width) => {
    const { data } = context.getImageData(Math.ceil(x), y - 6, Math.floor(width), 12);
    const counts = new Map();
    for (let i = 0; i < data.length; i += 4) {
      const colour = data.slice(i, i + 3).join();
      counts.set(colour, (counts.get(colour) ?? 0) + 1);
    }
    return [...counts].reduce((a, b) => a[1] >= b[1] ? a : b)[0].split(",").map(Number);
  };
  return points.map(([x, y, left, width]) => {
    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + x, clientY: box.top + y, pointerType: "mouse", bubbles: true }));
    const tip = document.getElementById("tip");
    return { lines: tip.hidden ? [] : [...tip.children].map((of) => of.textContent),
      colour: width > 9 ? colourOf(left, y, width) : null };
  });
}
/** Runs in the page: all that it says. */
function look() {
  document.activeElement?.blur();
  for (const list of document.querySelectorAll(".list")) {
    list.scrollTop = 0;
    list.dispatchEvent(new Event("scroll"));
  }
  const text = (id) => document.getElementById(id).textContent;
  const rows = (id) => [...document.querySelectorAll(`#${id} .row`)].map((of) => `${of.getAttribute("aria-selected")} ${of.textContent}`);
  const ids = ["path", "detail", "found", "chips", "range", "count", "notes", "sample-count"];
  const { view } = document.getElementById("main").dataset;
  // A digest (FNV-1a) of what is drawn: a picture takes longer to encode than all else.
  const drawn = () => {
    const canvas = document.getElementById("canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let hash = 0x811c9dc5;
    for (const pixel of new Uint32Array(data.buffer)) { hash = Math.imul(hash ^ pixel, 0x01000193); }
    return `${canvas.width}x${canvas.height} ${hash}`;
  };
  const shown = view === "flame" ? [text("legend"), drawn()] :
    view === "tree" ? rows("tree") : [text("function"), rows("callers"), rows("callees")];
  return { hash: location.hash, ...Object.fromEntries(ids.map((id) => [id, text(id)])), table: rows("list"), view, shown };
}
function readDetail() {
  const facts = {};
  const terms = [...document.querySelectorAll("#detail dt")];
  for (const term of terms) { facts[term.textContent] = term.nextElementSibling.textContent; }
  const chosen = document.querySelector("#list .chosen");
  return { title: document.querySelector("#detail b")?.textContent ?? "", facts, path: document.getElementById("path").textContent,
    chosen: chosen && [chosen.querySelector(".name").title, chosen.querySelector(".module").title] };
}
/** Runs in the page: clicks at a place of the canvas, if one is given, and reads what is said then. Three of four clicks are made so:
 *  a click of the browser's own mouse takes several times as long. */
function clickAndRead(readDetail, place) {
  const before = location.hash;
  if (place) {
    const canvas = document.getElementById("canvas");
    const { left, top } = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: left + place[0], clientY: top + place[1] }));
  }
  return { before, after: location.hash, said: readDetail(), found: document.getElementById("found").textContent };
}

/** Compares what is said of a frame with the sums. */
function checkTip(node, { lines, colour }, expect, state, where) {
  const { root } = expect;
  assert.equal(lines[0], shown(node.name), `${where}: the name`);
  const [, value, share, own] = lines[1].match(/^([\d,]+) \w+, ([\d.]+)% of all; itself ([\d,]+)/) ?? assert.fail(`${where}: ${lines[1]}`);
  assert.equal(number(value), node.total, where);
  assert.equal(number(own), node.own, where);
  isShare(share, node.total, root.total, where);
  const modules = [...new Set([...node.parts.values()].map((of) => of.module))];
  const known = modules.filter(Boolean);
  const said = known.length > 1 ? `in ${known.length} modules` : known.length ? known[0] + (modules.length > 1 ? ", or not known" : "") : "";
  const full = [...node.names.values()].map((of) => of.full);
  const rest = lines.slice(2).filter((line) => !line.includes("points") && !line.includes("% of "));
  const more = rest.length && rest[rest.length - 1].startsWith("+") ? rest.pop() : "";
  assert.equal(more.split(" of the start")[0], ["", "+1 row"][node.more] ?? `+${node.more} rows`, `${where}: the rows that it stands for`);
  if (full.length && !full.includes(lines[0]) && !node.hasRow) { assert.ok(full.includes(rest.shift()), `${where}: the full name`); }
  assert.deepEqual(rest, said ? [said] : [], `${where}: the module`);
  if (expect.isCompared) { checkChange(node, lines, colour, expect, state, where); return; }
  if (state.search || node === root || node.hasRow || !colour) { return; }
  const byKind = new Map();
  for (const { kind, total } of node.parts.values()) { byKind.set(kind, (byKind.get(kind) ?? 0) + total); }
  const most = Math.max(...byKind.values());
  const kinds = [...byKind.keys()].filter((kind) => byKind.get(kind) === most);
  const { hue } = hueOf(colour);
  assert.ok(kinds.includes(nearest(hue)), `${where}: ${kinds} is painted as ${nearest(hue)}, ${colour}`);
}
function checkChange(node, lines, colour, { wholes, each }, state, where) {
  const rates = [node.total, node.base].map((value, side) => wholes[side] ? value / wholes[side] : 0);
  const by = (rates[0] - rates[1]) * (state.side === "before" ? -1 : 1);
  const line = lines.find((of) => of.includes("points")) ?? assert.fail(`${where}: no change in ${lines}`);
  const [, sign, points, verdict] = line.match(/^([+−±])([\d.]+) points(?:, (\w+))?$/) ?? assert.fail(`${where}: ${line}`);
  assert.ok(Math.abs(Number(points) - Math.abs(100 * by)) < 0.00501, `${where}: ${line} is not ${100 * by}`);
  assert.equal(sign, by > 0 ? "+" : by < 0 ? "−" : "±", where);
  // What filters left of two files is not judged.
  assert.equal(verdict === undefined, each === null, where);
  if (verdict === undefined) { return; }
  if (verdict !== "noise") { assert.equal(verdict, by > 0 ? "more" : "less", where); }
  // Far from any bound there is no doubt: counts of samples that are equal, or of which one side has all of many.
  const [a, b] = [node.base / each, node.total / each];
  const rate = (a + b) / ((wholes[0] + wholes[1]) / each);
  const error = Math.sqrt(rate * (1 - rate) * (each / wholes[0] + each / wholes[1]));
  if (!(error > 0) || Math.abs(by) / error < 1) { assert.equal(verdict, "noise", `${where}: ${a} and ${b}`); }
  if (error > 0 && Math.abs(by) / error > 6 && a + b > 20) { assert.notEqual(verdict, "noise", `${where}: ${a} and ${b}`); }
  if (state.search || !colour) { return; }
  const { chroma, hue } = hueOf(colour);
  const painted = chroma < 0.02 ? "noise" : Math.abs(hue - 32) < 40 ? "more" : Math.abs(hue - 252) < 40 ? "less" : `${colour}`;
  assert.equal(painted, verdict, `${where}: the colour`);
}
function checkDetail(node, said, expect, state, where) {
  const { root, functions } = expect;
  const path = [];
  for (let at = node; at; at = at.parent) { path.unshift(shown(at.name)); }
  assert.ok(said.path.startsWith(`${path.join(" › ")} \u2003`), `${where}: the path ${said.path}`);
  assert.equal(number(said.path.match(/\u2003([\d,]+)/)[1]), node.total, where);
  if (node === root) { return; }
  assert.equal(said.title, shown(node.name), `${where}: the title`);
  const [, here, share, own] = said.facts.here.match(/^([\d,]+) \w+, ([\d.]+)%; itself ([\d,]+)/);
  assert.deepEqual([number(here), number(own)], [node.total, node.own], where);
  isShare(share, node.total, root.total, where);
  const parts = [...node.parts.values()].filter((of) => of.total > 0 || of.base > 0);
  const modules = [...new Set(parts.map((of) => of.module))];
  assert.deepEqual((said.facts.kind ?? "").split(" and ").filter(Boolean).sort(), [...new Set(parts.map((of) => of.kind))].sort(), where);
  const names = [...node.names.values()].filter((of) => of.total > 0 || of.base > 0);
  if (!node.hasRow) {
    const full = [...new Set(names.map((of) => of.full))];
    assert.equal(said.facts.name ?? said.title, full.length > 1 || full[0] !== said.title ? full.join("") : said.title, `${where}: the full name`);
    const tiers = new Map();
    for (const { tier, total } of names) { tiers.set(tier, (tiers.get(tier) ?? 0) + total); }
    const found = new Map((said.facts.tier ?? "").split(/, (?=[a-z])/).filter(Boolean).map((of) => {
      const [, tier, total] = of.match(/^(.*?)(?: ([\d,]+) \w+)?$/);
      return [tier === "not known" ? "" : tier, total === undefined ? node.total : number(total)];
    }));
    if (tiers.size === 1) { tiers.delete(""); }
    assert.deepEqual([...found].sort(), [...tiers].sort(), `${where}: the tiers`);
  }
  if (modules.length !== 1 || node.hasRow) {
    assert.equal(said.chosen, null, `${where}: no row is it`);
    assert.equal(said.facts.self, undefined, where);
    for (const module of modules.length + Boolean(node.hasRow) > 1 ? modules : []) {
      const sum = parts.filter((of) => of.module === module).reduce((of, part) => of + part.total, 0);
      assert.match(said.facts["in modules"].replace(/,/g, ""), new RegExp(`${(module || "not known").replace(/[[\].]/g, "\\$&")}: ${sum} `), where);
    }
    return;
  }
  const of = functions.get(JSON.stringify([node.name, modules[0]]));
  assert.ok(names.some((of) => of.full === said.chosen[0]), `${where}: the chosen row`);
  assert.deepEqual(said.chosen, [said.chosen[0], modules[0]], `${where}: the chosen row`);
  assert.equal(said.facts.module ?? "", modules[0], where);
  for (const term of ["self", "total"]) {
    const [, value, share] = said.facts[term].match(/^([\d,]+) \w+, ([\d.]+)%/);
    assert.equal(number(value), of[term], `${where}: ${term}`);
    isShare(share, of[term], root.total, `${where}: ${term}`);
  }
}
/** What of a search was found, of all and of a zoomed frame. */
function checkFound(text, zoomed, expect, state, where) {
  if (!state.search) { assert.equal(text, "", where); return; }
  const ignores = state.search.startsWith("(?i)") || !/[A-Z]/.test(state.search);
  const wanted = new RegExp(state.search.replace("(?i)", ""), ignores ? "iu" : "u");
  // What a label leaves out is found, too, also of names that are on other frames of that label.
  const isMatch = (node) => node !== expect.root && (wanted.test(shown(node.name)) || node.names.size > 0 &&
    [...expect.names.get(node.name)].some((name) => wanted.test(name)));
  const sum = (node, isIn) => {
    const isFound = isIn || isMatch(node);
    return isFound ? node.total : [...node.children.values()].reduce((of, child) => of + sum(child, false), 0);
  };
  const above = (node) => node !== null && (isMatch(node) || above(node.parent));
  const [, all, , within] = text.match(/: ([\d.]+)% of all(, ([\d.]+)% of the zoomed)?/) ?? assert.fail(`${where}: ${text}`);
  isShare(all, sum(expect.root, false), expect.root.total, `${where}: found`);
  if (zoomed !== expect.root) { isShare(within, sum(zoomed, above(zoomed.parent)), zoomed.total, `${where}: found in the zoom`); }
}

/** Runs in the page: what a reader does next. Choosing a row is no step of the history. */
function choose(share) {
  const rows = [...document.querySelectorAll("#list .row")].filter((of) => of.querySelector(".name").title !== "[unknown]");
  rows[Math.floor(share * rows.length)]?.click();
}
function act([kind, share]) {
  const pick = (all) => all[Math.floor(share * all.length)];
  if (kind === "group") {
    const group = document.getElementById("group");
    group.value = pick([...group.options]).value;
    group.dispatchEvent(new Event("change"));
  } else if (kind === "view") { pick([...document.querySelectorAll("button[data-view]")]).click();
  } else if (kind === "filter") { pick([...document.querySelectorAll("#detail .bar button")].filter((of) => /Focus|Ignore|Hide|here/.test(of.textContent)))?.click();
  } else if (kind === "rows") { document.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
  } else if (kind === "off") { document.querySelector("#chips button")?.click();
  } else if (kind === "search") {
    const search = document.getElementById("search");
    search.focus();
    search.value = pick(["", "main", "json", "a"]);
    search.dispatchEvent(new Event("input"));
  } else if (kind === "frame" && document.getElementById("canvas").clientWidth) {
    const canvas = document.getElementById("canvas");
    const box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: box.left + share * box.width, clientY: box.top + 18 * Math.floor(share * 50 % 5) + 9 }));
  }
}
/** Compares what is looked at, but for the word on what the last step has left, which the address does not have: it takes a line from
 *  the picture and the table. */
function isSame(seen, expected, where) {
  const leaves = [seen, expected].some((of) => of.notes.startsWith("Not here: "));
  const lasting = (of) => leaves ? { ...of, notes: "", shown: [of.shown[0]], table: of.table.slice(0, 20) } : of;
  assert.deepEqual(lasting(seen), lasting(expected), where);
}
/** A walk, and all of it back and forth. */
async function walk(tab, second, profile, next, where) {
  const seen = [];
  const pick = (list) => list[Math.floor(next() * list.length)];
  for (let step = 0; step < 6; step++) {
    await tab.run(choose, next());
    const before = await tab.run(look);
    await tab.run(act, [pick(["group", "view", "filter", "off", "search", "frame", "rows"]), next()]);
    const after = await tab.run(look);
    if (after.hash !== before.hash) { seen.push(before); }
  }
  seen.push(await tab.run(look));
  await second.go(profile.url + seen[seen.length - 1].hash);
  isSame(await second.run(look), seen[seen.length - 1], `${where}: opened anew after a walk`);
  for (let i = seen.length - 2; i >= 0; i--) {
    await tab.back(seen[i].hash);
    isSame(await tab.run(look), seen[i], `${where}: ${i} of a walk, back`);
  }
  for (let i = 1; i < seen.length; i++) {
    await tab.forward(seen[i].hash);
    isSame(await tab.run(look), seen[i], `${where}: ${i} of a walk, forward`);
  }
}

/**
 * `open` gives a tab, which has `run(function, argument)`, `go(address)`, `back()`, `forward()`, `close()`. Each call has tabs of its
 * own: a browser keeps what a tab has shown, a gigabyte of a hundred states.
 */
async function checkStates(open, profile, seed, states, limit) {
  const isEach = limit > 0;
  const next = random(seed);
  const [tab, second] = [await open(), await open()];
  let frames = 0;
  for (let k = 0; k < states; k++) {
    const state = stateOf(next, profile);
    const hash = addressOf(state);
    const where = `profile ${seed}, ${hash}`;
    const expect = expectOf(profile, state);
    expect.isCompared = Boolean(profile.older || state.base);
    expect.each = profile.older ? (state.filters.length || state.recursion ? null : 1) : 1_000_000;
    await tab.go(profile.url + hash);
    if (expect.root.total === 0) {
      if (!expect.isCompared) { assert.match(await tab.run(() => document.getElementById("notes").textContent), /nothing to show/, where); }
      continue;
    }
    const width = await tab.run(() => document.getElementById("canvas").clientWidth);
    let zoomed = expect.root;
    checkFound(await tab.run(() => document.getElementById("found").textContent), zoomed, expect, state, where);
    const place = (node) => {
      const isUp = node.level < zoomed.level;
      const [from, size] = [zoomed.start, zoomed.total];
      const x = isUp ? 0 : (node.start - from) / size * width;
      const w = isUp ? width : node.total / size * width;
      return { x, w, at: [x + w / 2, node.level * ROW + 9, x, w] };
    };
    const drawn = () => expect.nodes.filter((node) => {
      let at = node;
      while (at && at !== zoomed) { at = at.parent; }
      let up = zoomed;
      while (up && up !== node) { up = up.parent; }
      return (at || up) && !node.folded && node.total > 0 && place(node).w >= 3;
    });
    const point = async () => {
      const nodes = drawn();
      const said = await tab.run(pointAll, nodes.map((node) => place(node).at));
      nodes.forEach((node, i) => checkTip(node, said[i], expect, state, `${where}, zoom ${zoomed.name}, ${node.name} at ${place(node).at}`));
      frames += nodes.length;
      return nodes;
    };
    const nodes = await point();
    const chosen = limit ? nodes.filter(() => next() < limit / nodes.length) : nodes;
    for (const node of chosen) {
      const isWhole = isEach || next() < 0.25;
      const { at } = place(node);
      const there = `${where}, ${node.name} clicked at ${at.slice(0, 2)}`;
      const plain = isWhole ? await tab.run(look) : null;
      if (isWhole) { await tab.click(at); }
      const { before, after, said, found } = await tab.run(`(${clickAndRead})(${readDetail}, ${isWhole ? null : JSON.stringify(at)})`);
      checkDetail(node, said, expect, state, there);
      zoomed = node;
      checkFound(found, zoomed, expect, state, there);
      if (next() < 0.3) { await point(); }
      zoomed = expect.root;
      if (!isWhole) {
        if (after !== before) { await tab.back(before); }
        continue;
      }
      const seen = await tab.run(look);
      await second.go(profile.url + seen.hash);
      assert.deepEqual(await second.run(look), seen, `${there}: opened anew`);
      if (seen.hash === plain.hash) { continue; }
      await tab.back(plain.hash);
      assert.deepEqual(await tab.run(look), plain, `${there}: Back`);
      await tab.forward(seen.hash);
      assert.deepEqual(await tab.run(look), seen, `${there}: Forward`);
      await tab.back(plain.hash);
    }
  }
  await tab.go(profile.url);
  await walk(tab, second, profile, next, `profile ${seed}`);
  await Promise.all([tab.close(), second.close()]);
  return frames;
}

function make(seed) {
  if (seed % 4 === 0) { return makeTwo(seed); }
  const isTimed = seed % 4 !== 3;
  const samples = setLabels(samplesOf(random(seed), isTimed), true);
  const [input, page] = ["txt", "html"].map((ending) => join(folder, `${seed}.${ending}`));
  writeFileSync(input, isTimed ? scriptText(samples) : foldedText(samples));
  execFileSync(BINARY, ["view", input, "-o", page, ...(isTimed ? [] : ["--unit", "samples"])], { stdio: "ignore" });
  return { samples, isTimed, url: pathToFileURL(page).href };
}
/** Two files, compared. */
function makeTwo(seed) {
  const next = random(seed);
  const older = samplesOf(next, false);
  // What there was, more or less of it, and something new.
  const samples = older.filter(() => next() < 0.8).map((of) => ({ ...of, value: Math.ceil(of.value * (next() < 0.5 ? 1 : 3 * next())) }));
  samples.push(...samplesOf(next, false).slice(0, 10));
  setLabels([...older, ...samples], false);
  const [old, now, page] = ["old", "now", "html"].map((ending) => join(folder, `${seed}.${ending}`));
  writeFileSync(old, foldedText(older));
  writeFileSync(now, foldedText(samples));
  // Names are what they are: functions that differ in marks stay apart.
  execFileSync(BINARY, ["diff", old, now, "--names", "raw", "--unit", "samples", "-o", page], { stdio: "ignore" });
  return { samples, older, isTimed: false, url: pathToFileURL(page).href };
}
/** Goes through the history of a page; each page object has `evaluate`. */
async function travelTo(page, by, hash) {
  const there = await page.evaluate(travel, by);
  assert.equal(there || "#", hash || "#", by < 0 ? "Back" : "Forward");
}

let visits = 0;
/** The address with a query of its own: another fragment alone would not load the page again. */
const anew = (url) => url.replace(/(?=#|$)/, `?${++visits}`);

let browser;
before(async () => { browser = await launch(); });
after(async () => {
  await browser?.close();
  if (!process.env.KEEP) { rmSync(folder, { recursive: true }); }
});

test("every frame is what is said of it", async () => {
  const errors = [];
  const open = async () => {
    const page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
    page.setDefaultTimeout(20_000);
    page.on("pageerror", (error) => errors.push(error.message));
    return {
      close: () => page.close(), run: (code, argument) => page.evaluate(code, argument),
      async go(url) {
        await page.goto(anew(url));
        await page.waitForSelector("#path button", { state: "attached" });
      },
      async click([x, y]) {
        const box = await page.locator("#canvas").boundingBox();
        await page.mouse.click(box.x + x, box.y + y);
      },
      back: (hash) => travelTo(page, -1, hash), forward: (hash) => travelTo(page, 1, hash),
    };
  };
  let frames = 0;
  for (let left = STATES, seed = FIRST_SEED; left > 0; left -= STATES_OF_A_PROFILE, seed++) {
    frames += await checkStates(open, make(seed), seed, Math.min(left, STATES_OF_A_PROFILE), NIGHTLY ? 0 : 2);
    if (NIGHTLY) { console.log(`profile ${seed}: ${frames} frames until now`); }
  }
  assert.deepEqual(errors, []);
  assert.ok(frames > 10 * STATES, `${frames} frames`);
  console.log(`${frames} frames in ${STATES} states`);
});

const FIREFOX = process.env.FIREFOX ?? "/usr/bin/firefox-esr";
const skip = !existsSync(FIREFOX) && "skipped: frames in Firefox need firefox-esr";
if (skip) { console.log(skip); }
test("every frame is what is said of it, in Firefox", { skip }, async () => {
  const firefox = await puppeteer.launch({ browser: "firefox", executablePath: FIREFOX, headless: true });
  try {
    const open = async () => {
      const page = await firefox.newPage();
      await page.setViewport({ width: 1400, height: 1000 });
      return {
        close: () => page.close(), run: (code, argument) => page.evaluate(code, argument),
        async go(url) {
          await page.goto(anew(url));
          await page.waitForSelector("#path button");
        },
        async click([x, y]) {
          const box = await page.$eval("#canvas", (of) => { const { left, top } = of.getBoundingClientRect(); return [left, top]; });
          await page.mouse.click(box[0] + x, box[1] + y);
        },
        back: (hash) => travelTo(page, -1, hash), forward: (hash) => travelTo(page, 1, hash),
      };
    };
    let frames = 0;
    // A part of them by SEED and PROFILES: each takes minutes.
    const profiles = Number(process.env.PROFILES ?? (NIGHTLY ? 12 : 1));
    for (let seed = FIRST_SEED; seed < FIRST_SEED + profiles; seed++) {
      frames += await checkStates(open, make(seed), seed, NIGHTLY ? STATES_OF_A_PROFILE : 1, NIGHTLY ? 0 : 2);
      if (NIGHTLY) { console.log(`profile ${seed}: ${frames} frames until now`); }
    }
    assert.ok(frames > 20, `${frames} frames`);
  } finally {
    await firefox.close();
  }
});
