// Heat maps and flame charts in a real browser. Run by ./run.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { BINARY, launch, serve } from "./browser.mjs";

const folder = mkdtempSync(join(tmpdir(), "pyrograph-heatmap-"));

function run(verb, name, input, ...options) {
  const out = join(folder, name);
  execFileSync(BINARY, [verb, "-o", out, ...options], { input, encoding: "utf8" });
  return out;
}

// Two seconds of ten events of 1 ms each, then one of 90 ms.
const points = [];
for (let i = 0; i < 20; i++) { points.push(`${i / 10} ${1000 + i}`); }
points.push("2.5 90000");
const TEXT = points.join("\n");
const OPTIONS = ["--stepsec", "1", "--rows", "9", "--unitslabel", "us"];

// perf script text: half a second of busy(), a gap, then half a second of a name that is markup.
const NASTY = "<img/src=x/onerror=alert(1)>";
const samples = [];
for (let i = 0; i < 100; i++) {
  const time = (i < 50 ? 10.2 + i * 0.01 : 11.2 + i * 0.01).toFixed(6);
  const name = i < 50 ? "busy" : NASTY;
  samples.push(`app 7/${i % 2 ? 8 : 9} [000] ${time}: 10000000 cpu-clock: `,
    `\t 4a1 ${name}+0x1 (/bin/app)`, `\t 4b2 main+0x2 (/bin/app)`, "");
}
const SCRIPT = samples.join("\n");

let browser;
let server;
before(async () => {
  browser = await launch();
  const svg = readFileSync(run("heatmap", "map.svg", TEXT, ...OPTIONS, "--accstats"), "utf8");
  const log = readFileSync(run("heatmap", "log.svg", TEXT, "--log", "--unitslabel", "us"), "utf8");
  const body = (text) => `<!doctype html><meta charset="utf-8"><title>post</title>
<style>text,button,div{font-size:30px;color:red}</style><p>Words</p>${text}`;
  server = await serve({
    "/map.svg": svg,
    "/log.svg": log,
    "/img.html": body('<img src="/map.svg">'),
    "/inline.html": body(svg.slice(svg.indexOf("<svg")) + log.slice(log.indexOf("<svg"))),
    "/mangled.html": body(svg.slice(svg.indexOf("<svg")).replaceAll("]]>", "]]&gt;")),
    "/chart.svg": readFileSync(run("flamegraph", "chart.svg", SCRIPT, "--flamechart"), "utf8"),
  });
});
after(async () => {
  await browser?.close();
  server?.close();
});

async function open(path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1000, height: 700 }, ...options });
  // A busy machine takes longer than the default of 30 s now and then.
  context.setDefaultTimeout(120_000);
  const tab = await context.newPage();
  tab.said = [];
  tab.asked = [];
  tab.on("console", (message) => tab.said.push(message.text()));
  tab.on("pageerror", (error) => tab.said.push(error.message));
  tab.on("dialog", (dialog) => { tab.said.push("a dialog"); dialog.dismiss(); });
  tab.on("request", (request) => tab.asked.push(request.url()));
  await tab.goto(path.includes("://") ? path : server.address + path);
  return tab;
}
async function close(tab) {
  const said = tab.said.filter((text) => !text.includes("favicon"));
  assert.deepEqual(said, [], "the console is silent");
  await tab.context().close();
}

/** Where the cells are on the screen. */
function cells(tab) {
  return tab.locator("svg.cells").first().evaluate((picture) => {
    const number = (name) => Number(picture.getAttribute(name));
    const matrix = picture.parentNode.getScreenCTM();
    const at = new DOMPoint(number("x"), number("y")).matrixTransform(matrix);
    return { x: at.x, y: at.y, width: number("width") * matrix.a, height: number("height") * matrix.d };
  });
}
/** Where a cell is on the screen; rows from the bottom. */
async function cell(tab, column, row, columns, rows) {
  const box = await cells(tab);
  return {
    x: box.x + (column + 0.5) * box.width / columns,
    y: box.y + (rows - row - 0.5) * box.height / rows,
  };
}
const tip = (tab) => tab.locator("[role=status]").first();

for (const path of ["/map.svg", "/inline.html", "/mangled.html"]) {
  test(`a cell says what is in it: ${path}`, async () => {
    const tab = await open(path);
    const at = await cell(tab, 1, 0, 3, 9);
    await tab.mouse.move(at.x, at.y);
    const said = await tip(tab).innerText();
    assert.match(said, /^10 events, 100\.00% of the column's 10/);
    assert.match(said, /0–10 ms/);
    assert.match(said, /1–2 s from the start/);
    assert.match(said, /up to here 10, 100\.00%/);
    const empty = await cell(tab, 1, 5, 3, 9);
    await tab.mouse.move(empty.x, empty.y);
    assert.match(await tip(tab).innerText(), /^0 events/);
    await close(tab);
  });
}

test("the highest row and the last column answer", async () => {
  const tab = await open("/map.svg");
  const at = await cell(tab, 2, 8, 3, 9);
  await tab.mouse.move(at.x, at.y);
  assert.match(await tip(tab).innerText(), /^1 event, 100\.00%[^]*80–90 ms/);
  await close(tab);
});

test("a drag zooms, Escape shows everything", async () => {
  const tab = await open("/map.svg");
  const view = () => tab.locator("svg.cells").getAttribute("viewBox");
  assert.equal(await view(), "0 0 3 9");
  const from = await cell(tab, 0, 0, 3, 9);
  const to = await cell(tab, 1, 2, 3, 9);
  await tab.mouse.move(from.x, from.y);
  await tab.mouse.down();
  await tab.mouse.move(to.x, to.y, { steps: 4 });
  await tab.mouse.up();
  assert.equal(await view(), "0 6 2 3");
  const labels = await tab.locator(".axes text").allTextContents();
  assert.ok(labels.includes("30 ms") && !labels.includes("40 ms"), labels.join(", "));
  const cellSize = () => tab.locator("svg > text.sub").textContent();
  // It shows finer cells: 16 of each, in both directions.
  assert.equal(await cellSize(), "a cell: 62.5 ms by 625 \u00b5s");
  const fine = await cell(tab, 8, 1, 32, 48);
  await tab.mouse.move(fine.x, fine.y);
  assert.match(await tip(tab).innerText(),
    /^1 event, 100\.00% of the 1 drawn in the column\s+0\.625\u20131\.250 ms\s+500\.0\u2013562\.5 ms from/);
  await tab.keyboard.press("ArrowUp");
  assert.match(await tip(tab).innerText(), /^0 events/);
  await tab.keyboard.press("Escape");
  assert.equal(await view(), "0 0 3 9");
  assert.equal(await cellSize(), "");
  await close(tab);
});

test("the picture is laid out for its window, light and dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const tab = await open("/log.svg", { viewport: { width: 400, height: 700 }, colorScheme });
    const box = await cells(tab);
    assert.ok(box.width > 200 && box.x + box.width <= 400, JSON.stringify(box));
    const fits = await tab.evaluate(() => document.documentElement.getBBox().width <= 402);
    assert.ok(fits, "nothing is beyond the window");
    const fill = await tab.locator("rect.bg").evaluate((rect) => getComputedStyle(rect).fill);
    assert.equal(fill, colorScheme === "light" ? "rgb(255, 255, 255)" : "rgb(23, 23, 27)");
    await close(tab);
  }
});

test("in <img> it is whole", async () => {
  const tab = await open("/img.html");
  const size = await tab.locator("img").evaluate((img) => [img.naturalWidth, img.complete]);
  assert.ok(size[0] > 0 && size[1]);
  await close(tab);
});

test("the last time of a chart is whole", async () => {
  for (const [width, colorScheme] of [[1200, "light"], [500, "dark"], [333, "light"]]) {
    const tab = await open("/chart.svg", { viewport: { width, height: 600 }, colorScheme });
    const rights = await tab.locator(".text text").evaluateAll((texts) =>
      texts.map((text) => text.getBoundingClientRect().right));
    assert.ok(rights.length > 2 && Math.max(...rights) <= width - 10, `${rights}`);
    await close(tab);
  }
});

test("a chart has true time, and rows for each thread", async () => {
  const tab = await open("/chart.svg");
  const ticks = (await tab.locator(".text text").allTextContents()).filter((text) => / m?s$/.test(text));
  assert.ok(ticks.includes("1.0 s"), ticks.join(", "));
  const names = await tab.locator(".text text").allTextContents();
  assert.ok(names.includes("app-7/8") && names.includes("app-7/9"), names.join(", "));
  // The gap from 0.5 to 1.5 s: between the two parts of main there is nothing.
  const spans = await tab.evaluate(() => {
    const frames = document.querySelector("svg.frames");
    const rows = [...frames.children].filter((g) => g.tagName === "g");
    const per = Number(frames.dataset.ns) / 1e9;
    return [...rows[2].querySelectorAll("path")].map((path) => {
      const [start, width] = path.getAttribute("d").slice(1).split(" 0h").map(Number);
      return [start * per, (start + width) * per];
    }).sort((a, b) => a[0] - b[0]);
  });
  assert.equal(spans.length, 2);
  assert.ok(Math.abs(spans[0][1] - 0.5) < 0.03 && Math.abs(spans[1][0] - 1.5) < 0.03, `${spans}`);
  await close(tab);
});

const TELEPHONE = { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true };

test("on a telephone a picture fits the window, and a tap shows details until the next", async () => {
  const tab = await open("/map.svg", TELEPHONE);
  assert.equal(await tab.evaluate(() => innerWidth), 360);
  const box = await cells(tab);
  assert.ok(box.width > 200 && box.x + box.width <= 360, JSON.stringify(box));
  const at = await cell(tab, 1, 0, 3, 9);
  await tab.touchscreen.tap(at.x, at.y);
  assert.match(await tip(tab).innerText(), /^10 events, 100\.00% of the column's 10/);
  await tab.touchscreen.tap(5, 5);
  assert.equal(await tip(tab).isVisible(), false);
  const ends = await tab.locator(".axes text").evaluateAll((texts) =>
    texts.map((text) => text.getBoundingClientRect().right));
  assert.ok(Math.max(...ends) <= 360, `${ends}`);
  await close(tab);
});

test("paper is light, and has no buttons", async () => {
  const tab = await open("/map.svg", { colorScheme: "dark" });
  await tab.emulateMedia({ media: "print", colorScheme: "dark" });
  const fill = await tab.locator("rect.bg").evaluate((rect) => getComputedStyle(rect).fill);
  assert.equal(fill, "rgb(255, 255, 255)");
  assert.equal(await tab.locator("foreignObject").first().isVisible(), false);
  await close(tab);
});

test("finer numbers do not run into the title of their axis", async () => {
  const tab = await open("/map.svg");
  const from = await cell(tab, 0, 0, 3, 9);
  await tab.mouse.move(from.x - 40, from.y);
  await tab.mouse.down();
  await tab.mouse.move(from.x + 40, from.y + 12, { steps: 3 });
  await tab.mouse.up();
  const left = await tab.locator(".axes text").evaluateAll((texts) =>
    Math.min(...texts.map((text) => text.getBoundingClientRect().left)));
  const title = await tab.locator(".titles text").last().evaluate((text) => text.getBoundingClientRect().right);
  assert.ok(title <= left + 1, `${title} ${left}`);
  await close(tab);
});
