// How long pictures take to be painted, to zoom, and to search, in headless Chromium.
//
//   ./run measure STACKS.folded [OTHER.svg ...]
//
// Draws STACKS with pyrograph and measures it beside pictures that other tools made of the same
// stacks. Each figure is the median of several runs, in seconds, from the action until a screenshot
// of the result has been taken; "still" is what the screenshot alone takes, and an empty page shows
// what of the painting is the browser's own.

import { readFileSync, mkdtempSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { draw, launch } from "./browser.mjs";

const RUNS = Number(process.env.RUNS ?? 5);
/** How many frames are zoomed into in each run. */
const ZOOMS = 4;

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const seconds = (value) => (value === undefined ? "–" : value.toFixed(3)).padStart(8);

async function timed(tab, action) {
  const start = performance.now();
  await action();
  await tab.screenshot({ clip: { x: 0, y: 0, width: 1200, height: 900 } });
  return (performance.now() - start) / 1000;
}

/** Frames to zoom into, from the stacks: name and samples of some that are 10 to 60 px wide. */
function choose(folded) {
  const nodes = new Map();
  let total = 0;
  for (const line of folded.split("\n")) {
    const at = line.lastIndexOf(" ");
    if (at < 0) continue;
    const count = Number(line.slice(at + 1));
    total += count;
    const stack = line.slice(0, at);
    for (let end = 0; end !== -1; ) {
      end = stack.indexOf(";", end + 1);
      const path = end === -1 ? stack : stack.slice(0, end);
      nodes.set(path, (nodes.get(path) ?? 0) + count);
    }
  }
  const wide = [...nodes].filter(([, n]) => n * 1180 > 10 * total && n * 1180 < 60 * total);
  wide.sort(([a, n], [b, m]) => b.split(";").length - a.split(";").length || m - n);
  const step = Math.max(1, Math.floor(wide.length / ZOOMS));
  return wide.filter((_, index) => index % step === 0).slice(0, ZOOMS)
    .map(([path, count]) => ({ name: path.slice(path.lastIndexOf(";") + 1).replace(/_\[.\]$/, ""), count }));
}

async function measure(file, chosen) {
  const times = { painted: [], still: [], zoom: [], reset: [], search: [] };
  for (let run = 0; run < RUNS; run++) {
    const browser = await launch();
    const tab = await browser.newPage({ viewport: { width: 1200, height: 900 } });
    await tab.goto("about:blank");
    times.painted.push(await timed(tab, () => tab.goto(`file://${file}`)));
    times.still.push(await timed(tab, () => {}));
    // All are looked for before the first is pointed at: tooltips may take titles away.
    await tab.evaluate((wanted) => {
      const titles = [...document.querySelectorAll("title")];
      window.chosen = wanted.map(({ name, count }) => {
        const samples = `${count.toLocaleString("en")} samples`;
        const title = titles.find(({ textContent }) => textContent.startsWith(`${name}\n${samples}`)
          || textContent.startsWith(`${name} (${samples},`));
        return title ? title.parentNode.querySelector("rect") ?? title.parentNode : null;
      });
    }, chosen);
    for (const [index, frame] of chosen.entries()) {
      const at = await tab.evaluate((index) => {
        const shape = window.chosen[index];
        if (!shape) return null;
        scrollTo(0, shape.getBoundingClientRect().y + scrollY - 450);
        const box = shape.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
      }, index);
      if (!at) throw new Error(`${file} has no ${frame.name} of ${frame.count} samples`);
      times.zoom.push(await timed(tab, () => tab.mouse.click(...at)));
      times.reset.push(await timed(tab, () => tab.evaluate(() => {
        const reset = document.getElementById("unzoom");
        const event = { bubbles: true, cancelable: true };
        if (reset) reset.dispatchEvent(new MouseEvent("click", event));
        else document.documentElement.dispatchEvent(new KeyboardEvent("keydown", { key: "Home", ...event }));
      })));
    }
    times.search.push(await timed(tab, () => tab.evaluate(() => {
      if (typeof window.search === "function") {
        window.search("read");
        return;
      }
      for (const holder of document.querySelectorAll("foreignObject")) {
        const input = holder.firstElementChild.shadowRoot?.querySelector("input");
        if (!input) continue;
        input.value = "read";
        input.dispatchEvent(new Event("input", { bubbles: true }));
      }
    })));
    await browser.close();
  }
  return Object.fromEntries(Object.entries(times).map(([key, values]) => [key, median(values)]));
}

const [folded, ...others] = process.argv.slice(2);
if (!folded) {
  console.error("usage: ./run measure STACKS.folded [OTHER.svg ...]");
  process.exit(2);
}
const directory = mkdtempSync(join(tmpdir(), "pyrograph-measure-"));
const own = join(directory, "pyrograph.svg");
writeFileSync(own, draw(readFileSync(folded)));
const empty = join(directory, "empty page.svg");
writeFileSync(empty, '<svg xmlns="http://www.w3.org/2000/svg"/>');

const files = [own, ...others.map((file) => resolve(file))];
const chosen = choose(readFileSync(folded, "utf8"));
console.log(`medians of ${RUNS} runs; zooms into ${chosen.map(({ name }) => name).join(", ")}`);
console.log(`${"".padEnd(28)}   bytes  painted    still     zoom    reset   search`);
for (const file of [empty, ...files]) {
  const { painted, still, zoom, reset, search } = await measure(file, file === empty ? [] : chosen);
  const rest = file === empty ? "" : seconds(zoom) + " " + seconds(reset) + " " + seconds(search);
  const name = file.split("/").at(-1).padEnd(26);
  console.log(`${name} ${String(statSync(file).size).padStart(9)} ${seconds(painted)} ${seconds(still)} ${rest}`);
}
