// How much CPU time a page takes to open, and to show a span that is selected, in headless Chromium.
//
//   ./run measure-chart CHART.html [RUNS]
//
// CPU seconds of all of Chromium's processes, beside those of an empty page. Medians. A span is selected with the keyboard and
// a drag, as readers do, until a screenshot of the result has been taken; what a screenshot alone takes is measured, too.

import { readFileSync, readdirSync, statSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { launch } from "./browser.mjs";

const TICKS = 100;
const [file, runs = "5"] = process.argv.slice(2);
if (!file) {
  console.error("usage: ./run measure-chart CHART.html [RUNS]");
  process.exit(2);
}

/** CPU seconds of all processes that this one has started, and of those that these have. */
function used() {
  const parents = new Map();
  const times = new Map();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      parents.set(Number(pid), Number(fields[1]));
      times.set(Number(pid), fields.slice(11, 15).map(Number).reduce((sum, ticks) => sum + ticks));
    } catch {
      // It has ended.
    }
  }
  let sum = 0;
  for (const [pid, ticks] of times) {
    for (let at = parents.get(pid); at; at = parents.get(at)) {
      if (at === process.pid) { sum += ticks; break; }
    }
  }
  return sum / TICKS;
}
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

async function timed(tab, action) {
  const before = used();
  await action();
  await tab.screenshot();
  return used() - before;
}

async function measure(path) {
  const times = { open: [], still: [], select: [], zoom: [] };
  for (let run = 0; run < Number(runs); run++) {
    const browser = await launch();
    const tab = await browser.newPage({ viewport: { width: 1200, height: 900 } });
    await tab.goto("about:blank");
    times.open.push(await timed(tab, async () => {
      await tab.goto(`file://${path}`);
      await tab.waitForFunction(() => !document.getElementById("span")?.textContent.startsWith("Unpacking"));
    }));
    times.still.push(await timed(tab, () => {}));
    if (await tab.locator("#over").count()) {
      const box = await tab.locator("#over").boundingBox();
      times.select.push(await timed(tab, async () => {
        await tab.keyboard.down("Shift");
        await tab.mouse.move(box.x + 400, box.y + 60);
        await tab.mouse.down();
        await tab.mouse.move(box.x + 800, box.y + 60);
        await tab.mouse.up();
        await tab.keyboard.up("Shift");
      }));
      times.zoom.push(await timed(tab, () => tab.locator("#over").press("+")));
    }
    await browser.close();
  }
  return Object.fromEntries(Object.entries(times).map(([key, values]) => [key, values.length ? median(values) : NaN]));
}

const empty = join(mkdtempSync(join(tmpdir(), "pyrograph-measure-")), "empty.html");
writeFileSync(empty, "<!doctype html><title>empty</title><p id=span>empty</p>");
const own = resolve(file);
console.log(`medians of ${runs}; CPU s of Chromium, an empty page and a still screenshot taken off`);
const base = await measure(empty);
const { open, still, select, zoom } = await measure(own);
console.log(`${(statSync(own).size / 1e6).toFixed(2)} MB: opens in ${(open - base.open).toFixed(2)}, ` +
  `a span is selected in ${(select - still).toFixed(2)}, zooms in ${(zoom - still).toFixed(2)} ` +
  `(empty page ${base.open.toFixed(2)}, still ${still.toFixed(2)})`);
