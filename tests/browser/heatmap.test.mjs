// Heat maps, pages of subsecond offsets, and flame charts in a real browser. Run by ./run.

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
let page;
before(async () => {
  browser = await launch();
  const svg = readFileSync(run("heatmap", "map.svg", TEXT, ...OPTIONS, "--accstats"), "utf8");
  const log = readFileSync(run("heatmap", "log.svg", TEXT, "--log", "--unitslabel", "us"), "utf8");
  const body = (text) => `<!doctype html><meta charset="utf-8"><title>post</title>
<style>text,button,div{font-size:30px;color:red}</style><p>Words</p>${text}`;
  page = run("heatmap", "offsets.html", SCRIPT, "--offsets");
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

test("a span of time that is chosen shows its flame graph, from a file", async () => {
  const tab = await open(`file://${page}`);
  await tab.waitForFunction(() => document.getElementById("span").textContent.startsWith("All"));
  assert.match(await tab.locator("#span").innerText(), /100 samples/);
  // Two columns of 50 rows: the second of 10.2 to 10.7, and that of 11.7 to 12.2 in two.
  const from = await cell(tab, 0, 0, 3, 50);
  const to = await cell(tab, 0, 49, 3, 50);
  await tab.mouse.move(from.x, from.y);
  await tab.mouse.down();
  await tab.mouse.move(to.x, to.y, { steps: 5 });
  await tab.mouse.up();
  await tab.waitForFunction(() => document.getElementById("span").textContent.includes("50 samples"));
  assert.match(await tab.locator("#span").innerText(), /0–1 s|0\.0+–1\.0+ s/);
  const details = async (row) => {
    const box = await tab.locator("canvas").boundingBox();
    await tab.mouse.move(box.x + box.width / 2, box.y + 18 * row + 9);
    return tab.locator("#details").innerText();
  };
  assert.match(await details(3), /^busy\n500 ms, 100\.00% of the chosen span/);
  await tab.locator("#all").click();
  await tab.waitForFunction(() => document.getElementById("span").textContent.startsWith("All"));
  await tab.locator("#search").fill("onerror");
  assert.match(await tab.locator("#found").innerText(), /^50\.00%/);
  const box = await tab.locator("canvas").boundingBox();
  await tab.mouse.move(box.x + box.width / 4, box.y + 18 * 3 + 9);
  assert.ok((await tab.locator("#details").innerText()).startsWith(NASTY));
  assert.equal(await tab.locator("img").count(), 0, "a name is no markup");
  assert.deepEqual(tab.asked.filter((url) => !url.startsWith("file:")), [], "no other resource");
  await close(tab);
});

const opened = (tab) =>
  tab.waitForFunction(() => document.getElementById("span").textContent.startsWith("All"));

test("the flame graph stands beside the heat map where there is room, else below", async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1200, 500]) {
      const tab = await open(`file://${page}`, { viewport: { width, height: 700 }, colorScheme });
      await opened(tab);
      const map = await tab.locator("#map").boundingBox();
      const flame = await tab.locator("canvas").boundingBox();
      if (width > 1000) {
        assert.ok(flame.x >= map.x + map.width && flame.y < map.y + map.height, JSON.stringify([map, flame]));
      } else {
        assert.ok(flame.y >= map.y + map.height, JSON.stringify([map, flame]));
      }
      // Three seconds fill what is theirs.
      const box = await cells(tab);
      assert.ok(box.width > 200 && box.x + box.width <= map.x + map.width, JSON.stringify(box));
      assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
      assert.equal(await tab.locator("#legend span").count(), 0, "one colour says nothing");
      await close(tab);
    }
  }
});

test("arrow keys walk the frames of a span, Enter zooms", async () => {
  const tab = await open(`file://${page}`);
  await opened(tab);
  const said = () => tab.locator("#details").innerText();
  await tab.locator("canvas").focus();
  await tab.keyboard.press("ArrowDown");
  assert.match(await said(), /^all\n/);
  for (const name of ["app", "main"]) {
    await tab.keyboard.press("ArrowDown");
    assert.ok((await said()).startsWith(`${name}\n`), await said());
  }
  await tab.keyboard.press("ArrowDown");
  const first = await said();
  await tab.keyboard.press("ArrowRight");
  await tab.keyboard.press("ArrowLeft");
  assert.match(await said(), /50\.00% of the chosen span/);
  await tab.keyboard.press("Enter");
  assert.ok(await tab.locator("#out").isVisible());
  await tab.keyboard.press("ArrowUp");
  assert.match(await said(), /^main\n/, first);
  await tab.keyboard.press("Escape");
  assert.ok(await tab.locator("#out").isHidden());
  await tab.keyboard.press("/");
  assert.equal(await tab.evaluate(() => document.activeElement.id), "search");
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

// One cell of 100 events, 49 of 50, one of 1: of a machine that is busy, half busy, and idle for a moment.
const levels = [];
for (let second = 0; second < 51; second++) {
  for (let i = 0; i < (second === 50 ? 1 : second % 2 ? 50 : 100); i++) {
    levels.push(`app 7/8 [000] ${(20 + second + i / 5000).toFixed(6)}: 10000000 cpu-clock: `, `\t 4a1 work+0x1 (/bin/app)`, "");
  }
}

test("half busy and busy differ in the map of offsets, and n and the axes have their words", async () => {
  const tab = await open(`file://${run("heatmap", "levels.html", levels.join("\n"), "--offsets")}`);
  await opened(tab);
  const found = await tab.evaluate(() => {
    const lightness = (path) => {
      const [r, g, b] = getComputedStyle(path).stroke.match(/\d+/g).map(Number);
      return (r + g + b) / 3;
    };
    return [...document.querySelectorAll(".cells .grid path")].map((path) =>
      [Math.max(...path.dataset.n.split(" ").map(Number)), lightness(path)]);
  });
  const of = (count) => found.find(([most]) => most === count)[1];
  assert.ok(of(50) - of(100) > 60, JSON.stringify(found));
  const n = levels.length / 3;
  assert.match(await tab.locator(".meaning").textContent(),
    new RegExp(`^samples in a cell, up to 100; n = ${n.toLocaleString("en")}$`));
  assert.deepEqual(await tab.locator(".titles text").allTextContents(),
    ["Time from the start", "Offset within the second"]);
  await close(tab);
  const map = await open("/map.svg");
  assert.match(await map.locator(".meaning").textContent(), /n = 21$/);
  assert.deepEqual(await map.locator(".titles text").allTextContents(), ["Time from the start", "Latency"]);
  await close(map);
});

test("the selection is an outline, and the colours under it stay", async () => {
  const tab = await open(`file://${page}`);
  await opened(tab);
  const drag = async (from, to) => {
    await tab.mouse.move(from.x, from.y);
    await tab.mouse.down();
    await tab.mouse.move(to.x, to.y, { steps: 3 });
    await tab.mouse.up();
  };
  await drag(await cell(tab, 0, 20, 3, 50), await cell(tab, 2, 30, 3, 50));
  const path = () => tab.locator("path.chosen").first().evaluate((chosen) => {
    const box = chosen.getBBox();
    const style = getComputedStyle(chosen);
    return { fill: style.fill, d: chosen.getAttribute("d"), width: box.width, height: box.height };
  });
  const box = await cells(tab);
  let now = await path();
  assert.equal(now.fill, "none");
  assert.ok(Math.abs(now.width - box.width) < 1 && Math.abs(now.height - box.height) < 1, JSON.stringify(now));
  assert.equal(now.d.match(/[MHVz]/g).join(""), "MHVHVHVHz", "with a step at either end");
  // From the end of one second to the beginning of the next: two boxes.
  await drag(await cell(tab, 0, 40, 3, 50), await cell(tab, 1, 5, 3, 50));
  assert.equal((await path()).d.match(/z/g).length, 2);
  await tab.locator("#all").click();
  assert.equal((await path()).d, "");
  assert.match(await tab.locator("#span").innerText(), /^All of the time/);
  // How to choose a span is of no use on paper.
  assert.equal(await tab.locator("#hint").isVisible(), true);
  await tab.emulateMedia({ media: "print" });
  assert.equal(await tab.locator("#hint").isVisible(), false);
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

test("on a telephone the page of offsets has buttons for fingers, and a tap shows a frame", async () => {
  const tab = await open(`file://${page}`, TELEPHONE);
  await opened(tab);
  assert.equal(await tab.evaluate(() => innerWidth), 360);
  assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  assert.ok((await tab.locator("#search").boundingBox()).height >= 40);
  const at = await cell(tab, 0, 25, 3, 50);
  await tab.touchscreen.tap(at.x, at.y);
  // A tap becomes a click after a while.
  await tab.waitForFunction(() => [...document.querySelectorAll("[role=status]")]
    .some((status) => /samples?, /.test(status.innerText)));
  for (const id of ["#all"]) { assert.ok((await tab.locator(id).boundingBox()).height >= 40); }
  await tab.locator("#all").tap();
  await tab.locator("canvas").scrollIntoViewIfNeeded();
  const flame = await tab.locator("canvas").boundingBox();
  await tab.touchscreen.tap(flame.x + flame.width / 2, flame.y + 28 * 2 + 14);
  assert.match(await tab.locator("#details").innerText(), /^main\n/);
  await close(tab);
});

test("paper is light, and has no buttons", async () => {
  for (const path of ["/map.svg", `file://${page}`]) {
    const tab = await open(path, { colorScheme: "dark" });
    if (path !== "/map.svg") { await opened(tab); }
    await tab.emulateMedia({ media: "print", colorScheme: "dark" });
    const fill = await tab.locator("rect.bg").evaluate((rect) => getComputedStyle(rect).fill);
    assert.equal(fill, "rgb(255, 255, 255)");
    assert.equal(await tab.locator("#search").isVisible(), false);
    assert.equal(await tab.locator("foreignObject").first().isVisible(), false);
    await close(tab);
  }
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
