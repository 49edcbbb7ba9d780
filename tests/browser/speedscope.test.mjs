// Output of `pyrograph convert`, opened by speedscope: its own page, from npm, in a real browser.
// Its importers of five formats are what is tested against; its sandwich view lists what each function
// costs.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { BINARY, launch } from "./browser.mjs";

const DIST = new URL("./node_modules/speedscope/dist/release/", import.meta.url);
const SAMPLES = fileURLToPath(new URL("../../crates/format/tests/formats/", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };

let browser;
let server;
let address;
let folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "pyrograph-speedscope-"));
  server = createServer((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname.slice(1);
    const file = path.startsWith("profiles/") ? join(folder, path.slice(9)) : new URL(path, DIST);
    try {
      const body = readFileSync(file);
      response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  address = `http://127.0.0.1:${server.address().port}`;
  browser = await launch();
});

after(async () => {
  await browser?.close();
  server?.close();
  if (folder) rmSync(folder, { recursive: true });
});

/** Converts a sample of the readers' tests into a file; returns its name. */
function convert(sample, name, ...options) {
  execFileSync(BINARY, ["convert", join(SAMPLES, sample), "-o", join(folder, name), ...options], {
    stdio: ["ignore", "ignore", "ignore"],
  });
  return name;
}

/** Self and total cost of each function, from folded stacks. A function in a stack twice costs once. */
function costs(sample, ...options) {
  const folded = execFileSync(BINARY, ["convert", join(SAMPLES, sample), "--to", "folded", ...options], {
    encoding: "utf8", stdio: ["ignore", "pipe", "ignore"],
  });
  const lines = folded.trim().split("\n").map((line) => line.match(/^(.*) (\d+)$/));
  const table = {};
  for (const [, stack, value] of lines) {
    const names = stack.split(";");
    for (const name of new Set(names)) {
      table[name] ??= { self: 0, total: 0 };
      table[name].total += Number(value);
    }
    table[names.at(-1)].self += Number(value);
  }
  return table;
}

const UNITS = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };

/** A cost as speedscope writes it: `120.00ms (86%)`, `9 (64%)`. */
function cost(text) {
  const [, number, unit] = text.trim().match(/^([\d.,]+)([a-zµ]*)/) ?? assert.fail(JSON.stringify(text));
  return Number(number.replaceAll(",", "")) * (UNITS[unit] ?? 1);
}

/** Opens a file in speedscope and reads its table of functions; fails on any error of its own. */
async function opened(name) {
  const page = await browser.newPage();
  page.setDefaultTimeout(120_000);
  const said = [];
  page.on("console", (message) => { if (message.type() === "error") said.push(message.text()); });
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("dialog", (dialog) => { said.push(dialog.message()); dialog.dismiss(); });
  const profile = encodeURIComponent(`${address}/profiles/${name}`);
  await page.goto(`${address}/index.html#profileURL=${profile}&view=sandwich`);
  const rows = await page.waitForFunction(() => {
    const rows = [...document.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.innerText));
    const found = rows.filter((cells) => cells.length === 3 && cells.slice(0, 2).every((cell) => /^\s*[\d.,]+(\s|[a-zµ(])/.test(cell)));
    return found.length > 0 && found;
  }, undefined, { timeout: 120_000 });
  const table = {};
  for (const [total, self, name] of await rows.jsonValue()) {
    // Of a trace's event, it shows the arguments, too.
    table[name.trim().replace(/ \{.*\}$/, "")] = { self: cost(self), total: cost(total) };
  }
  await page.close();
  assert.deepEqual(said, []);
  return table;
}

/** Whether speedscope's rounded costs are these. */
function agree(shown, expected) {
  assert.deepEqual(Object.keys(shown).sort(), Object.keys(expected).sort());
  for (const [name, { self, total }] of Object.entries(expected)) {
    for (const [what, value] of [["self", self], ["total", total]]) {
      const difference = Math.abs(shown[name][what] - value);
      assert.ok(difference <= value * 0.006 + 0.5, `${name}: ${what} ${shown[name][what]}, not ${value}`);
    }
  }
}

test("speedscope's own format", async () => {
  const shown = await opened(convert("pprof/go-cpu.pb.gz", "go.speedscope.json"));
  agree(shown, costs("pprof/go-cpu.pb.gz", "--value", "cpu"));
});

test("a value that is not time, and the one that is shown first", async () => {
  const shown = await opened(
    convert("pprof/go-heap.pb.gz", "heap.speedscope.json", "--value", "inuse_objects"),
  );
  agree(shown, costs("pprof/go-heap.pb.gz", "--value", "inuse_objects"));
});

test("pprof: the same as of the file that Go wrote", async () => {
  const go = "pprof/go-heap.pb.gz";
  const shown = await opened(convert(go, "heap.pb.gz", "--value", "alloc_objects"));
  // Inlined calls, which speedscope leaves out, are not in this one.
  agree(shown, costs(go, "--value", "alloc_objects"));
});

test("callgrind", async () => {
  // speedscope shows the first event, and no function is called in two ways here.
  const shown = await opened(convert("pprof/go-heap.pb.gz", "heap.callgrind"));
  agree(shown, costs("pprof/go-heap.pb.gz", "--value", "alloc_objects"));
});

test("Chrome traces: time is where it was", async () => {
  const sample = "cpuprofile/node.cpuprofile";
  const shown = await opened(convert(sample, "node.trace.json", "--focus", "fib"));
  const expected = costs(sample, "--focus", "fib");
  assert.ok(Object.keys(expected).length >= 2);
  // Of which there are several.
  delete expected["(anonymous)"];
  for (const [name, { total }] of Object.entries(expected)) {
    assert.ok(Math.abs(shown[name].total - total) <= total * 0.006 + 0.5, `${name}: ${shown[name].total}`);
  }
});
