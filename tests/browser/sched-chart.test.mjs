// The chart of the scheduler's events: its sums against brute force, and the page in a real browser. Run by ./run.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { BINARY, launch } from "./browser.mjs";

const folder = mkdtempSync(join(tmpdir(), "pyrograph-sched-chart-"));
const SOURCES = fileURLToPath(new URL("../../crates/render/src/sched_chart/", import.meta.url));
const source = (name) => readFileSync(SOURCES + name, "utf8");

/** Functions of the page's scripts that need no page. */
const { readChart, sumsIn, pixelsOf, pixelsOfCpu, pixelsOfProcess, offCpuIn } = new Function(`
${source("1-data.js")}
${source("2-sums.js")}
return { readChart, sumsIn, pixelsOf, pixelsOfCpu, pixelsOfProcess, offCpuIn };`)();

/** Numbers from 0 up to a limit, the same ones in every run. */
function numbers(seed) {
  let state = seed;
  return (below) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor((state / 2147483648) * below);
  };
}

const NASTY = "<img/src=x>";
const NAMES = ["swapper", "alpha", "beta", NASTY, "delta", "epsilon"];
const START = 1_000_000_000_000;

/**
 * A machine of two CPUs and five threads: its events as perf script prints them, and what each thread did in each microsecond:
 * C0 and C1 run, r is ready, S and D are blocked.
 */
function machine(seed, steps) {
  const number = numbers(seed);
  const running = [1, 2];
  const now = [null, "C0", "C1", "r", "S", "D"];
  const history = [];
  const lines = [];
  const say = (cpu, task, text) => {
    const time = ((START + history.length * 1000) / 1e9).toFixed(9);
    lines.push(`${NAMES[task]} ${task === 0 ? 0 : 100 + task} [00${cpu}] ${time}: ${text}`);
  };
  const who = (task, names) => `${names[0]}=${NAMES[task]} ${names[1]}=${task === 0 ? 0 : 100 + task} ${names[2]}=120`;
  const pass = () => {
    for (let left = 1 + number(20); left > 0; left--) history.push(now.slice(1));
  };
  // All are known from the start.
  for (const cpu of [0, 1]) {
    const next = cpu === 0 ? 3 : 0;
    say(cpu, running[cpu], `sched:sched_switch: ${who(running[cpu], ["prev_comm", "prev_pid", "prev_prio"])} prev_state=S ==> ` +
      who(next, ["next_comm", "next_pid", "next_prio"]));
    now[running[cpu]] = "S";
    if (next) now[next] = `C${cpu}`;
    running[cpu] = next;
    pass();
  }
  for (let step = 0; step < steps; step++) {
    const cpu = number(2);
    const waiting = [1, 2, 3, 4, 5].filter((task) => "SD".includes(now[task]));
    const ready = [1, 2, 3, 4, 5].filter((task) => now[task] === "r");
    if (waiting.length > 0 && number(3) > 0) {
      const task = waiting[number(waiting.length)];
      say(cpu, running[cpu], `sched:sched_waking: ${who(task, ["comm", "pid", "prio"])} target_cpu=00${cpu}`);
      now[task] = "r";
    } else {
      const next = ready.length > 0 ? ready[number(ready.length)] : 0;
      const previous = running[cpu];
      if (next === previous) continue;
      const state = previous === 0 ? "R" : ["S", "D", "R"][number(3)];
      say(cpu, previous, `sched:sched_switch: ${who(previous, ["prev_comm", "prev_pid", "prev_prio"])} prev_state=${state} ==> ` +
        who(next, ["next_comm", "next_pid", "next_prio"]));
      if (previous) now[previous] = state === "R" ? "r" : state;
      if (next) now[next] = `C${cpu}`;
      running[cpu] = next;
    }
    pass();
  }
  // The chart ends with an event.
  const end = history.length;
  say(0, running[0], `sched:sched_waking: ${who(5, ["comm", "pid", "prio"])} target_cpu=000`);
  return { text: lines.join("\n") + "\n", history: history.slice(0, end) };
}

function chart(name, text, ...options) {
  const input = join(folder, "trace.txt");
  const out = join(folder, name);
  writeFileSync(input, text);
  execFileSync(BINARY, ["sched", "chart", "-i", input, "-o", out, ...options], { stdio: ["ignore", "ignore", "pipe"] });
  return out;
}

/** The data of a page, with what its codes mean. */
function dataOf(page) {
  const html = readFileSync(page, "utf8");
  const [, codes] = html.match(/data-codes="([^"]*)"/);
  const [, labels] = html.match(/data-labels="([^"]*)"/);
  const [, packed] = html.match(/data-idle="[^"]*">\n([A-Za-z0-9+/=]+)\n/);
  const kindOf = new Uint8Array(256);
  codes.split(" ").forEach((code, index) => { kindOf[index] = parseInt(code, 10); });
  const data = readChart(new Uint8Array(gunzipSync(Buffer.from(packed, "base64"))));
  return { data, kindOf, labels: labels.split(",") };
}

/** The same by brute force: microseconds of each kind. */
function counted(history, task, from, to, labels) {
  const sums = new Array(labels.length).fill(0);
  for (const moment of history.slice(from, to)) {
    const what = moment[task];
    const label = what === "r" ? "waiting for a CPU" : what === "S" ? "blocked" : what === "D" ? "uninterruptible" : "running";
    sums[labels.indexOf(label)] += 1000;
  }
  return sums;
}
// What a thread did before it was seen first follows from its first event; of one that was blocked, not in which state.
const known = (sums, labels) => {
  const all = [...sums];
  all[labels.indexOf("blocked")] += all[labels.indexOf("uninterruptible")];
  all[labels.indexOf("uninterruptible")] = 0;
  return all;
};

const MACHINES = [3, 17, 99].map((seed) => machine(seed, 400));

test("sums over any span are those of the machine", () => {
  let compared = 0;
  for (const [index, { text, history }] of MACHINES.entries()) {
    const { data, kindOf, labels } = dataOf(chart(`sums-${index}.html`, text));
    assert.equal(data.length, history.length * 1000);
    assert.deepEqual(data.cpus, [0, 1]);
    const number = numbers(5);
    for (let round = 0; round < 40; round++) {
      const ends = [number(history.length), number(history.length)].sort((a, b) => a - b);
      const [from, to] = round === 0 ? [0, history.length] : ends;
      const width = labels.length;
      const sums = sumsIn(data, kindOf, width, from * 1000, to * 1000);
      for (let row = 0; row < data.rows; row++) {
        const found = [...sums.slice(row * (width + 1), row * (width + 1) + width)];
        const expect = counted(history, data.tids[row] - 101, from, to, labels);
        assert.deepEqual(known(found, labels), known(expect, labels), `machine ${index}, ${from} to ${to}, row ${row}`);
        compared++;
      }
    }
  }
  assert.ok(compared > 500, `${compared}`);
});

test("pixels have the shares of their time, at any zoom", () => {
  for (const [index, { text, history }] of MACHINES.entries()) {
    const { data, kindOf, labels } = dataOf(chart(`pixels-${index}.html`, text));
    const kinds = labels.length;
    for (const [from, to, width] of [[0, history.length, 40], [100, 300, 50], [100, 300, 400], [7, 33, 13]]) {
      const view = { from: from * 1000, to: to * 1000, width };
      const per = (to - from) / width;
      const solid = new Uint8Array(width);
      const shares = new Float32Array(width * kinds);
      for (let row = 0; row < data.rows; row++) {
        pixelsOf(data, row, view, kindOf, kinds, solid, shares, 1e9, []);
        for (let x = 0; x < width; x++) {
          const found = new Array(kinds).fill(0);
          if (solid[x] === 0) { for (let k = 0; k < kinds; k++) found[k] = shares[x * kinds + k]; }
          else { found[solid[x] - 1] = 1; }
          // Sums over the pixel are exact for brute force where its ends are whole microseconds.
          const sums = sumsIn(data, kindOf, kinds, view.from + x * per * 1000, view.from + (x + 1) * per * 1000);
          for (let k = 0; k < kinds; k++) {
            const expect = sums[row * (kinds + 1) + k] / (per * 1000);
            assert.ok(Math.abs(found[k] - expect) < 1e-4, `row ${row}, pixel ${x}, ${labels[k]}: ${found[k]}, not ${expect}`);
          }
        }
      }
      const busy = new Float32Array(width);
      const owner = new Uint32Array(width);
      const running = new Float32Array(width);
      const ready = new Float32Array(width);
      const all = new Float32Array(width);
      data.cpus.forEach((_, cpu) => {
        pixelsOfCpu(data, cpu, view, busy, owner, 1e9, []);
        busy.forEach((share, x) => { all[x] += share; });
      });
      const sum = new Float32Array(width);
      const wait = new Float32Array(width);
      data.processes.forEach((process) => {
        pixelsOfProcess(data, process, view, kindOf, running, ready);
        running.forEach((share, x) => { sum[x] += share; wait[x] += ready[x]; });
      });
      // What CPUs ran is what threads ran.
      for (let x = 0; x < width; x++) {
        const moments = sumsIn(data, kindOf, kinds, view.from + x * per * 1000, view.from + (x + 1) * per * 1000);
        let ran = 0;
        let waited = 0;
        for (let row = 0; row < data.rows; row++) {
          ran += moments[row * (kinds + 1)];
          waited += moments[row * (kinds + 1) + 1];
        }
        assert.ok(Math.abs(all[x] - ran / (per * 1000)) < 1e-4, `CPUs, pixel ${x}`);
        assert.ok(Math.abs(sum[x] - ran / (per * 1000)) < 1e-4, `processes, pixel ${x}`);
        assert.ok(Math.abs(wait[x] - waited / (per * 1000)) < 1e-4, `waits, pixel ${x}`);
      }
    }
  }
});

test("time off the CPU belongs to the stack with which the thread left it", () => {
  // Thread 0: blocked with stack 1 from 10 to 30, woken until 40, runs until 50, preempted without a stack until 60, runs until
  // 70, blocked with stack 2 until 100.
  const data = {
    rows: 1, rowFirst: Uint32Array.of(0, 7),
    starts: Float64Array.of(10, 30, 40, 50, 60, 70, 100),
    codes: Uint8Array.of(5, 4, 1, 3, 1, 5, 255),
    stackOf: Uint32Array.of(1, 0, 0, 0, 0, 2, 0),
    frameOfStack: Uint32Array.of(0, 3, 4),
    graph: { parents: new Uint32Array(5) },
  };
  assert.deepEqual([...offCpuIn(data, 0, 200, null)], [0, 0, 0, 30, 30]);
  assert.deepEqual([...offCpuIn(data, 20, 35, null)], [0, 0, 0, 15, 0]);
  assert.deepEqual([...offCpuIn(data, 32, 75, null)], [0, 0, 0, 8, 5]);
  assert.deepEqual([...offCpuIn(data, 0, 200, Uint8Array.of(0))], [0, 0, 0, 0, 0]);
});

let browser;
let page;
before(async () => {
  browser = await launch();
  page = chart("page.html", MACHINES[0].text, "--title", "a </script> & more");
});
after(async () => { await browser?.close(); });

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  context.setDefaultTimeout(120_000);
  const tab = await context.newPage();
  tab.said = [];
  tab.asked = [];
  tab.on("console", (message) => tab.said.push(message.text()));
  tab.on("pageerror", (error) => tab.said.push(error.message));
  tab.on("dialog", (dialog) => { tab.said.push("a dialog"); dialog.dismiss(); });
  tab.on("request", (request) => tab.asked.push(request.url()));
  await tab.goto(`file://${page}`);
  await tab.waitForFunction(() => document.getElementById("span").textContent.startsWith("All of the time"));
  return tab;
}
async function close(tab) {
  assert.deepEqual(tab.said, [], "the console is silent");
  assert.deepEqual(tab.asked, [`file://${page}`], "the page asks for nothing");
  await tab.context().close();
}
const table = (tab) => tab.locator("#sums tr").evaluateAll((rows) => rows.map((row) =>
  [...row.children].map((cell) => cell.textContent)));

test("the table has the sums of the selected span, sorted as asked", async () => {
  const tab = await open();
  const all = await table(tab);
  assert.deepEqual(all[0].slice(0, 3), ["Thread", "running", "waiting for a CPU"]);
  assert.equal(all[1][0], "5 threads");
  assert.equal(all.length, 7);
  assert.ok(all.some((row) => row[0] === `${NASTY} 103`), "names are text");
  const box = await tab.locator("#over").boundingBox();
  await tab.keyboard.down("Shift");
  await tab.mouse.move(box.x + 500, box.y + 40);
  await tab.mouse.down();
  await tab.mouse.move(box.x + 700, box.y + 80, { steps: 3 });
  await tab.mouse.up();
  await tab.keyboard.up("Shift");
  assert.match(await tab.locator("#span").innerText(), /^Selected: /);
  assert.notDeepEqual(await table(tab), all);
  await tab.locator("#sums thead button", { hasText: "waiting for a CPU" }).click();
  assert.equal(await tab.locator("[aria-sort=descending]").innerText(), "waiting for a CPU ▾".replace(" ▾", ""));
  await tab.locator("#clear").click();
  assert.match(await tab.locator("#span").innerText(), /^All of the time/);
  await close(tab);
});

test("what is pointed at is described, with who woke it; w goes there", async () => {
  const tab = await open();
  const over = tab.locator("#over");
  await over.focus();
  await over.press("ArrowDown");
  let said = "";
  for (let presses = 0; presses < 30 && !/^woken by|^then woken by/m.test(said); presses++) {
    await over.press("Shift+ArrowRight");
    said = await tab.locator("#tip").innerText();
  }
  const [, waker] = said.match(/woken by (.*) on CPU \d/);
  const before = said.split("\n")[0];
  await over.press("w");
  const after = (await tab.locator("#tip").innerText()).split("\n");
  if (waker === "an interrupt") { assert.equal(after[0], before); }
  else {
    assert.equal(after[0], waker);
    assert.match(after[1], /^ran on CPU/, "a waker runs");
  }
  await over.press("Escape");
  assert.equal(await tab.locator("#tip").isVisible(), false);
  await close(tab);
});

test("keys, wheel and buttons zoom", async () => {
  const tab = await open();
  const all = tab.locator("#all");
  assert.equal(await all.isDisabled(), true);
  await tab.locator("#over").press("+");
  await tab.waitForFunction(() => !document.getElementById("all").disabled);
  await tab.emulateMedia({ reducedMotion: "reduce" });
  await tab.locator("#over").press("0");
  await tab.waitForFunction(() => document.getElementById("all").disabled);
  const box = await tab.locator("#over").boundingBox();
  await tab.mouse.move(box.x + 600, box.y + 100);
  await tab.keyboard.down("Control");
  await tab.mouse.wheel(0, -200);
  await tab.keyboard.up("Control");
  await tab.waitForFunction(() => !document.getElementById("all").disabled);
  await all.click();
  await tab.waitForFunction(() => document.getElementById("all").disabled);
  await close(tab);
});

test("a filter leaves the threads that are asked for, in the chart and in the table", async () => {
  const tab = await open();
  await tab.locator("body").press("/");
  await tab.keyboard.type("alpha");
  assert.deepEqual((await table(tab)).slice(1).map((row) => row[0]), ["1 thread", "alpha 101"]);
  await tab.locator("#filter").fill("no such thread");
  assert.equal(await tab.locator("#filter").getAttribute("aria-invalid"), "true");
  await close(tab);
});

test("on a telephone all fits, buttons are for fingers, and a button makes a drag select", async () => {
  const tab = await open({ viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 });
  assert.equal(await tab.evaluate(() => innerWidth), 360);
  assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  for (const id of ["#filter", "#select", "#in", "#less", "#all"]) {
    assert.ok((await tab.locator(id).boundingBox()).height >= 40, id);
  }
  await tab.locator("#select").tap();
  assert.equal(await tab.locator("#select").getAttribute("aria-pressed"), "true");
  const box = await tab.locator("#over").boundingBox();
  await tab.mouse.move(box.x + 100, box.y + 60);
  await tab.mouse.down();
  await tab.mouse.move(box.x + 220, box.y + 60, { steps: 3 });
  await tab.mouse.up();
  assert.match(await tab.locator("#span").innerText(), /^Selected: /);
  await close(tab);
});

test("on paper it is light, without buttons", async () => {
  const tab = await open({ colorScheme: "dark" });
  await tab.emulateMedia({ media: "print", colorScheme: "dark" });
  assert.equal(await tab.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  for (const id of ["#filter", "#select", "#over"]) { assert.equal(await tab.locator(id).isVisible(), false, id); }
  assert.equal(await tab.locator("#sums").isVisible(), true);
  await close(tab);
});

test("the picture shows in an img, at any width", async () => {
  for (const width of [360, 1200, 2560]) {
    const svg = chart(`picture-${width}.svg`, MACHINES[0].text, "--width", String(width));
    const context = await browser.newContext({ viewport: { width, height: 700 } });
    const tab = await context.newPage();
    await tab.goto(`file://${svg}`);
    const ends = await tab.locator("text").evaluateAll((texts) => texts.map((text) => text.getBoundingClientRect().right));
    assert.ok(Math.max(...ends) <= width + 1, `${width}: ${Math.max(...ends)}`);
    await context.close();
  }
});
