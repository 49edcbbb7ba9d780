// The page of `pyrograph view` without a browser: its script, in Node, beside the command line and brute force, on seeded
// profiles. Run by ./run.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { BINARY } from "./browser.mjs";

const PROFILES = Number(process.env.PROFILES ?? 200);
const VERDICTS = Number(process.env.VERDICTS ?? (process.env.PYROGRAPH_NIGHTLY ? 300 : 20));
let changed = 0;
const folder = mkdtempSync(join(tmpdir(), "pyrograph-view-"));
after(() => rmSync(folder, { recursive: true }));

const run = (...args) => execFileSync(BINARY, args, { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] });

/** The part of the page's script that needs no page, and the profile in it. */
function open(path) {
  const page = readFileSync(path, "utf8");
  const script = page.slice(page.lastIndexOf("<script>") + 8, page.lastIndexOf("</script>"));
  const core = new Function(`${script.slice(script.indexOf("function makeCore("), script.indexOf("var MINUTE"))}return makeCore();`)();
  const text = page.match(/id="pyrograph-profile">([^<]*)</)[1];
  return { core, data: core.decode(new Uint8Array(gunzipSync(Buffer.from(text, "base64")))) };
}

/** mulberry32. */
function random(seed) {
  return () => {
    seed = seed + 0x6d2b79f5 | 0;
    let t = Math.imul(seed ^ seed >>> 15, 1 | seed);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 4294967296;
  };
}

const NAMES = ["main", "parse", "read", "a::b", "a::b<c>", "naïve", "𝛼", "work(int)", "[unknown]", "x+y", "zz", "parse_all"];
const MODULES = ["/bin/app", "/lib/libc.so.6", "[kernel.kallsyms]"];

/** Text of `perf script`: threads, CPUs, times, periods, modules; one name in several modules; recursion. */
function profile(next) {
  const pick = (list) => list[Math.floor(next() * list.length)];
  let time = 5000 + next() * 100;
  let text = "";
  for (let left = 1 + Math.floor(next() * 60); left > 0; left--) {
    time += next() < 0.3 ? 0 : next() * 0.2;
    const tid = 100 + Math.floor(next() * 4);
    const comm = tid % 2 ? "main" : "app one";
    const period = 1 + Math.floor(next() * 1e6);
    text += `${comm} ${100 + tid % 2}/${tid} [00${Math.floor(next() * 3)}] ${time.toFixed(6)}: ${period} cycles:\n`;
    for (let depth = Math.floor(next() * 7); depth > 0; depth--) {
      text += `\t${(0x1000 + Math.floor(next() * 16)).toString(16)} ${pick(NAMES)} (${pick(MODULES)})\n`;
    }
    text += "\n";
  }
  return text;
}

/** The folded text of a tree. */
function folded(tree, own) {
  const lines = [];
  const paths = [""];
  for (let node = 0; node < tree.size; node++) {
    const { labels, names } = tree.keys;
    if (node > 0) {
      const above = paths[tree.parent[node]];
      paths[node] = (above ? `${above};` : "") + names[labels[tree.key[node]]];
    }
    if (own[node] > 0) { lines.push(`${paths[node] || "[unknown]"} ${own[node]}`); }
  }
  return lines.sort();
}
const sorted = (text) => text.split("\n").filter(Boolean).sort();

function view(core, data, state) {
  const tree = core.steps(core.build(data, state));
  const range = core.slice(data.samples, state.range);
  const values = data.samples.values[state.value];
  const sums = core.sums(tree, tree.node, values, range);
  return { tree, sums, fine: core.sums(tree.fine, tree.fine.node, values, range) };
}

/** What folded lines say of a search: stacks in which a name matches; below the zoomed path, or all if the path has it. */
function searched(lines, matches, path) {
  let all = 0;
  let zoomed = 0;
  let whole = 0;
  for (const line of lines) {
    const at = line.lastIndexOf(" ");
    const frames = line.slice(0, at).split(";");
    const value = Number(line.slice(at + 1));
    const found = frames.some(matches);
    if (found) { all += value; }
    if (path.every((name, i) => frames[i] === name)) {
      whole += value;
      if (found) { zoomed += value; }
    }
  }
  return { all, zoomed, whole };
}

const close = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b));

for (const group of ["cgroup", "cmdline"]) { test(`grouped by ${group}`, () => {
  const input = join(folder, `${group}.txt`);
  const page = join(folder, `${group}.html`);
  writeFileSync(input, profile(random(7)));
  run("view", input, "-o", page);
  const { core, data } = open(page);
  // Of half of the threads it is not known.
  data.threads.forEach((thread, i) => { thread[group] = i % 2 ? data.texts.length - 1 : 0; });
  const { tree, sums } = view(core, data, { ...core.defaults(data.about), group });
  const roots = new Map();
  for (let node = 1; node < tree.size; node++) {
    if (tree.parent[node] === 0) { roots.set(tree.keys.names[tree.keys.labels[tree.key[node]]], sums.total[node]); }
  }
  const expect = new Map();
  for (let i = 0; i < data.samples.count; i++) {
    const name = data.threads[data.samples.thread[i]][group] ? data.texts.at(-1) : "[unknown]";
    expect.set(name, (expect.get(name) ?? 0) + data.samples.values[0][i]);
  }
  assert.deepEqual(roots, expect);
}); }

test("expressions are read as the command line reads them", () => {
  const input = join(folder, "any.txt");
  writeFileSync(input, "main 1\n");
  run("view", input, "-o", join(folder, "any.html"));
  const { core } = open(join(folder, "any.html"));
  const cases = [["json", "JSON::read", true], ["JSON", "json_read", false], ["(?i)JSON", "json_read", true], ["(?-i)json", "JSON", false],
    ["\\Sain", "main", true], ["\\p{Lu}AIN", "main", false], ["std\\:\\:a\\-b", "std::a-b", true], ["[\\-x]y", "-y", true],
    ["a\\\\:", "a\\:", true], ["(?P<x>m)ain", "main", true], ["na\u00efve", "NA\u00cfVE", true], ["\\<b", "<b", true]];
  for (const [text, name, expect] of cases) {
    assert.equal(core.regexpOf(text, core.ignoresCase(text, "")).test(name), expect, `${text} in ${name}`);
  }
  assert.ok(core.regexpOf("JSON", core.ignoresCase("JSON", "ignore")).test("json"));
  assert.ok(!core.regexpOf("json", core.ignoresCase("json", "exact")).test("JSON"));
  for (const name of ["read_[k]", "read_[i]", "read_[j]", "read"]) { assert.equal(core.withoutMark(name), "read"); }
  assert.equal(core.withoutMark("a[k]"), "a[k]");
});

test("addresses name places and functions, whatever their names are", () => {
  const { core, data } = open(join(folder, "any.html"));
  const usual = core.defaults(data.about);
  for (const names of [["main"], ["a;b", "c|d", "100%"], ["", "x"], ["%3B", "\u{1d6fc}"]]) {
    const state = { ...usual, zoom: { rows: ["app;1"], names }, selected: { rows: [], names }, key: { name: names[0] || "f", module: "/bin/a|b" } };
    assert.deepEqual(core.fromHash(core.toHash(state, data.about), data.about), state);
  }
});

// The judge is the comparison of the command line, which was told nothing but the samples of both ranges.
for (let seed = 1; seed <= VERDICTS; seed++) {
  test(`verdicts on two ranges are those of pyrograph diff, ${seed}`, () => {
    const next = random(1000 + seed);
    const counts = [1 + Math.floor(next() * 400), 1 + Math.floor(next() * 400)];
    const weights = counts.map(() => Array.from({ length: 12 }, () => next() * next()));
    let text = "";
    for (let i = 0; i < counts[0] + counts[1]; i++) {
      const side = i < counts[0] ? 0 : 1;
      const mixed = weights[side].map((weight, k) => 0.6 * weights[0][k] + 0.4 * weight);
      let at = next() * mixed.reduce((a, b) => a + b);
      const leaf = mixed.findIndex((weight) => (at -= weight) < 0);
      text += `app 1/1 [000] ${(5 + i / 1000).toFixed(6)}: 1000000 cycles:\n\t10 leaf${leaf} (/bin/app)\n` +
        `\t20 part${leaf % 3} (/bin/app)\n\t30 main (/bin/app)\n\n`;
    }
    const input = join(folder, `two-${seed}.txt`);
    const page = join(folder, `two-${seed}.html`);
    writeFileSync(input, text);
    run("view", input, "-o", page);
    const cut = counts[0] * 1e6;
    const ranges = [[0, cut], [cut, cut + counts[1] * 1e6]];
    const files = ranges.map(([from, to], side) => {
      const file = join(folder, `two-${seed}-${side}.pb.gz`);
      run("convert", "--to", "pprof", "--time", `${from / 1e9}..${to / 1e9}`, input, "-o", file);
      return file;
    });
    const judged = join(folder, `judged-${seed}.html`);
    run("diff", ...files, "-o", judged);
    const paths = ({ stacks, texts, frames }) => {
      const found = [""];
      for (let i = 1; i < stacks.parent.length; i++) { found.push(`${found[stacks.parent[i]]};${texts[frames.label[stacks.leaf[i]]]}`); }
      return found;
    };
    const expect = new Map();
    const other = open(judged).data;
    paths(other).forEach((path, i) => { if (i > 0) { expect.set(path, other.verdicts[i]); } });
    const { core, data } = open(page);
    const tree = core.steps(core.build(data, core.defaults(data.about)));
    const sums = (range, power) => core.sums(tree, tree.node, data.samples.values[0], core.slice(data.samples, range), power);
    const [base, after] = ranges.map((range) => sums(range));
    const squares = ranges.map((range) => sums(range, 2).total).reduce((a, b) => a.map((of, i) => of + b[i]));
    const verdicts = core.verdicts(base.total, after.total, squares, base.samples + after.samples);
    const found = new Map();
    const names = [""];
    for (let node = 1; node < tree.size; node++) {
      names[node] = `${names[tree.parent[node]]};${tree.keys.names[tree.keys.labels[tree.key[node]]]}`;
      found.set(names[node], verdicts[node]);
    }
    assert.deepEqual(new Map([...found].sort()), new Map([...expect].sort()));
    changed += [...expect.values()].filter(Boolean).length;
  });
}
test("of these, some are beyond noise", () => { assert.ok(changed > VERDICTS, String(changed)); });

for (let seed = 1; seed <= PROFILES; seed++) {
  test(`profile ${seed}`, () => {
    const next = random(seed);
    const pick = (list) => list[Math.floor(next() * list.length)];
    const input = join(folder, `${seed}.txt`);
    const page = join(folder, `${seed}.html`);
    writeFileSync(input, profile(next));
    run("view", input, "-o", page);
    const { core, data } = open(page);
    const plain = { ...core.defaults(data.about) };

    // Totals and self, by stack and by function; the page is read back as what it was made of.
    const { tree, sums, fine } = view(core, data, plain);
    const lines = sorted(run("fold", input));
    assert.deepEqual(sorted(run("fold", page)), lines);
    assert.deepEqual(folded(tree, sums.own), lines);
    assert.equal(sums.total[0], sums.own.reduce((a, b) => a + b));
    const report = JSON.parse(run("report", "--json", "--top", "0", "--depth", "0", page));
    assert.deepEqual(JSON.parse(run("report", "--json", "--top", "0", "--depth", "0", input)), report);
    const functions = core.functions(tree.fine, fine);
    const rows = [];
    for (let key = 0; key < functions.total.length; key++) {
      if (functions.total[key] === 0) { continue; }
      const isFunction = key < data.functions.firstKey.length;
      rows.push({ name: isFunction ? data.texts[data.frames.label[data.functions.first[data.functions.firstKey[key]]]] : "[unknown]",
        module: isFunction ? data.texts[data.frames.module[data.functions.first[data.functions.firstKey[key]]]] : "",
        self: functions.self[key], total: functions.total[key] });
    }
    const order = (a, b) => JSON.stringify(a) < JSON.stringify(b) ? -1 : 1;
    assert.deepEqual(rows.sort(order), report.functions.map(({ name, module, self, total }) =>
      ({ name, module, self, total })).sort(order));

    // Every node lies within its caller, and beside those before it.
    const start = core.layout(tree, sums);
    for (let node = 1; node < tree.size; node++) {
      const caller = tree.parent[node];
      assert.ok(start[node] >= start[caller] + (node === caller + 1 ? sums.own[caller] : 0));
      assert.ok(start[node] + sums.total[node] <= start[caller] + sums.total[caller]);
    }

    // A search, of all and of a zoomed node.
    const name = pick(NAMES);
    const regexp = new RegExp(name.replace(/[+()[\]]/g, "\\$&"), "u");
    for (const zoom of [0, Math.floor(next() * tree.size), Math.floor(next() * tree.size)]) {
      const path = [];
      for (let node = zoom; node > 0; node = tree.parent[node]) { path.unshift(tree.keys.names[tree.keys.labels[tree.key[node]]]); }
      // What ended in no frame at all is `[unknown]` in folded text, and no frame here.
      const none = sums.own[0] > 0;
      const own = lines.filter((line) => !(none && line.startsWith("[unknown] ") && line.endsWith(` ${sums.own[0]}`)));
      const expect = searched(own, (frame) => regexp.test(frame), path);
      const hits = core.findHits(tree, core.matcherOf(data, tree, regexp), sums.total, zoom);
      assert.equal(hits.all, expect.all);
      assert.equal(hits.zoomed, expect.zoomed);
      assert.ok(hits.zoomed >= 0 && hits.zoomed <= sums.total[zoom]);
    }

    // Callers and callees, of all samples one by one.
    const { samples, stacks } = data;
    const chosen = Math.floor(next() * data.functions.firstKey.length);
    const callers = new Map();
    const callees = new Map();
    for (let i = 0; i < samples.count; i++) {
      const row = data.threads[samples.thread[i]].labels[0];
      const path = [];
      for (let at = samples.stack[i]; at > 0; at = stacks.parent[at]) { path.unshift(data.functions.row[data.functions.of[stacks.leaf[at]]]); }
      if (row) { path.unshift(`row ${row}`); }
      const pairs = new Set(path.slice(1).map((key, k) => JSON.stringify([path[k], key])));
      for (const pair of pairs) {
        const [caller, callee] = JSON.parse(pair);
        const add = (map, key) => map.set(key, (map.get(key) || 0) + samples.values[0][i]);
        if (callee === chosen) { add(callers, caller); }
        if (caller === chosen) { add(callees, callee); }
      }
    }
    const found = core.neighbours(tree.fine, fine, chosen);
    const keyed = ([key, value]) => [key < data.functions.firstKey.length ? key : `row ${tree.keys.labels[tree.keys.count + key - tree.keys.functions]}`, value];
    assert.deepEqual(new Map(found.callers.map(keyed)), callers);
    assert.deepEqual(new Map(found.callees.map(keyed)), callees);

    // From the leaves: each level adds up to the one above, less what began there.
    const leaves = core.reversed(tree.fine, fine);
    assert.ok(close(leaves.reduce((sum, of) => sum + of.value, 0), sums.total[0] - sums.own[0]));
    for (const entry of leaves.slice(0, 5)) {
      const value = core.callersOf(tree.fine, entry).reduce((sum, of) => sum + of.value, 0);
      const roots = entry.nodes.reduce((sum, node, i) => sum + (tree.fine.parent[node] === 0 ? entry.parts[i] : 0), 0);
      assert.ok(close(value + roots, entry.value));
    }

    // When within a second: by sample, of all seconds in fewer columns, too.
    const timed = (i) => i >= samples.untimed;
    const last = samples.time[samples.count - 1] + 1;
    for (const second of [1e9, 7e7]) {
      const phase = Math.floor(next() * second);
      const all = Math.max(1, Math.ceil((phase + last) / second));
      const map = { second, phase, all, columns: Math.min(all, 5), rows: 10 };
      const cells = new Float64Array(map.columns * map.rows);
      samples.time.forEach((time, i) => {
        if (!timed(i)) { return; }
        const column = Math.floor(Math.floor((time + phase) / second) / all * map.columns);
        cells[column * 10 + Math.floor((time + phase) % second * 10 / second)] += samples.values[0][i];
      });
      const found = core.bySecond(samples, tree.node, samples.values[0], map);
      assert.equal(found.length, cells.length);
      assert.ok(close(found.reduce((a, b) => a + b, 0), cells.reduce((a, b) => a + b, 0)));
      // A time at the edge of a cell may be on either side of it.
      assert.ok(found.filter((sum, i) => !close(sum, cells[i])).length <= 2, `${found} ${cells}`);
    }

    // Filters and ranges, as the command line has them.
    const pattern = () => next() < 0.2 ? `module:${pick(["libc", "kernel", "app$"])}` : pick(["^parse", "main", "a::", "zz$", "naïve|x"]);
    for (let round = 0; round < 3; round++) {
      const state = { ...plain, filters: [] };
      for (const kind of ["focus", "ignore", "hide", "from-frame"]) {
        if (next() < 0.35) { state.filters.push({ kind, text: pattern() }); }
      }
      if (next() < 0.3) { state.filters.push({ kind: "fold-recursion", text: "" }); }
      if (next() < 0.2) { state.filters.push({ kind: "tid", text: String(100 + Math.floor(next() * 4)) }); }
      if (next() < 0.4) { state.range = [0, 3e9].map((most) => Math.round(next() * 1e9) + most / 3); }
      if (next() < 0.4) { state.group = pick(["process", "thread", "pool", "cpu"]); }
      const { core: same } = { core };
      assert.deepEqual(same.fromHash(same.toHash(state, data.about), data.about), state);
      const command = core.commandLine(state, data.about, page);
      const words = command.replace(/^pyrograph flamegraph --inverted /, "").replace(/ -o flamegraph.svg$/, "");
      let expect;
      try {
        expect = sorted(execFileSync("sh", ["-c", `"$0" fold ${words}`, BINARY], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
      } catch {
        // "the filters leave nothing" is an error there.
        expect = [];
      }
      const shown = view(core, data, state);
      assert.deepEqual(folded(shown.tree, shown.sums.own), expect, command);
    }
  });
}
