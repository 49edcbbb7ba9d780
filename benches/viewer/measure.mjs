// What pages cost in headless Chromium: measure.mjs NAME=FILE...
//
// CPU seconds of all of Chromium's processes from an action to the screenshot of its result, median of several runs, each
// in a browser of its own; `still` is what a screenshot of the page as it is takes. Memory is the renderer's, resident and
// not shared, after all of it. Actions that a page does not have are left out.

import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { launch } from "../../tests/browser/browser.mjs";

const RUNS = Number(process.env.RUNS ?? 5);
const TICKS = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

/** All processes below one of this program's, by number, with their commands. */
function processes(root) {
  const table = execFileSync("ps", ["-eo", "pid=,ppid=,args="], { encoding: "utf8" }).trim().split("\n")
    .map((line) => line.trim().match(/^(\d+)\s+(\d+)\s+(.*)$/).slice(1));
  const found = new Set([String(root)]);
  for (let before = 0; before < found.size;) {
    before = found.size;
    table.forEach(([pid, parent]) => { if (found.has(parent)) { found.add(pid); } });
  }
  return table.filter(([pid]) => found.has(pid) && pid !== String(root));
}
const chromium = () => processes(process.pid).filter(([, , command]) => command.includes("chrom"));
function cpu() {
  let ticks = 0;
  for (const [pid] of chromium()) {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\) /, "").split(" ");
      // Of itself and of those that it has waited for.
      ticks += fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    } catch {
      // It is gone.
    }
  }
  return ticks / TICKS;
}
function rendererMemory() {
  let most = 0;
  for (const [pid] of chromium().filter(([, , command]) => command.includes("--type=renderer"))) {
    try {
      const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
      const kilobytes = (field) => Number(rollup.match(new RegExp(`^${field}:\\s+(\\d+)`, "m"))[1]);
      most = Math.max(most, (kilobytes("Private_Clean") + kilobytes("Private_Dirty")) / 1000);
    } catch {
      // It is gone.
    }
  }
  return most;
}

const kinds = {
  viewer: {
    ready: (tab) => tab.waitForFunction(() => document.getElementById("canvas")?.height > 1 &&
      document.querySelector("#path button")),
    async zoom(tab) { await tab.evaluate(() => { location.hash = "#zoom=200"; }); await tab.waitForTimeout(50); },
    async reset(tab) { await tab.evaluate(() => { location.hash = ""; }); await tab.waitForTimeout(50); },
    async search(tab) { await tab.fill("#search", "read"); await tab.waitForFunction(() => document.getElementById("found").textContent); },
    async range(tab) {
      if (await tab.locator("#time").isHidden()) { return false; }
      await tab.fill("#search", "");
      await tab.evaluate(() => { location.hash = "#range=50..120"; });
      return tab.waitForFunction(() => !document.getElementById("all-time").hidden);
    }
  },
  svg: {
    ready: (tab) => tab.waitForSelector("svg g"),
    async search(tab) {
      await tab.evaluate(() => {
        for (const holder of document.querySelectorAll("foreignObject")) {
          const input = holder.firstElementChild.shadowRoot?.querySelector("input");
          if (input) { input.value = "read"; input.dispatchEvent(new Event("input", { bubbles: true })); }
        }
      });
    }
  },
  speedscope: {
    // The names of its views are there once a profile is loaded.
    ready: (tab) => tab.waitForFunction(() => document.body.innerText.includes("Left Heavy") && document.querySelector("canvas"))
  },
  empty: { ready: async () => {} }
};

async function one(kind, url) {
  const browser = await launch();
  const tab = await browser.newPage({ viewport: { width: 1200, height: 900 } });
  tab.setDefaultTimeout(300_000);
  await tab.goto("about:blank");
  await tab.screenshot();
  const found = {};
  const timed = async (name, action) => {
    const before = cpu();
    const done = await action();
    await tab.screenshot();
    if (done !== false) { found[name] = cpu() - before; }
  };
  await timed("paint", async () => { await tab.goto(url); await kinds[kind].ready(tab); });
  await timed("still", async () => {});
  for (const name of ["zoom", "reset", "search", "range"]) {
    if (kinds[kind][name]) { await timed(name, () => kinds[kind][name](tab)); }
  }
  found.memory = rendererMemory();
  await browser.close();
  return found;
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const columns = ["paint", "still", "zoom", "reset", "search", "range", "memory"];
console.log(`| page | MB | ${columns.join(" | ")} |`);
console.log(`|---|---:|${columns.map(() => "---:").join("|")}|`);
for (const argument of process.argv.slice(2)) {
  // NAME=KIND:FILE[#FRAGMENT]
  const [, name, kind, file, fragment = ""] = argument.match(/^(.*?)=(\w+):([^#]*)(#.*)?$/);
  const url = file.startsWith("http") || file === "about:blank" ? file + fragment : pathToFileURL(file).href + fragment;
  const runs = [];
  for (let run = 0; run < RUNS; run++) { runs.push(await one(kind, url)); }
  const cell = (column) => {
    const values = runs.map((run) => run[column]).filter((value) => value !== undefined);
    return values.length ? median(values).toFixed(column === "memory" ? 0 : 2) : "–";
  };
  const size = file.startsWith("http") || file === "about:blank" ? "–" : (statSync(file).size / 1e6).toFixed(2);
  console.log(`| ${name} | ${size} | ${columns.map(cell).join(" | ")} |`);
}
