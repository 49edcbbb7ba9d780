// The page of `pyrograph view` in a real browser: keys, pointers, fingers, its address, where it may not do everything.
// Run by ./run.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createServer } from "node:http";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { BINARY, launch, serve } from "./browser.mjs";

const NASTY = "</script><img src=x onerror=alert(1)>";
const folder = mkdtempSync(join(tmpdir(), "pyrograph-view-"));

/** A page of an input. */
function make(name, input, ...options) {
  const path = join(folder, `${name}.html`);
  writeFileSync(join(folder, `${name}.txt`), input);
  execFileSync(BINARY, ["view", join(folder, `${name}.txt`), "--title", `${name} & <b>`, "-o", path, ...options],
    { stdio: ["ignore", "ignore", "ignore"] });
  return path;
}
/** Text of `perf script`: two threads, that change what they do after a second. */
function recording() {
  let text = "";
  for (let i = 0; i < 400; i++) {
    const [tid, name] = i % 4 ? [71, "worker"] : [70, "app"];
    const early = i < 200;
    const leaf = i % 5 === 0 ? "read" : early ? "parse" : "eval";
    text += `${name} 70/${tid} [00${i % 2}] ${(100 + i * 0.005).toFixed(6)}: 1000000 cpu-clock:\n` +
      `\t10 ${leaf} (/bin/app)\n\t20 step (/bin/app)\n${i % 3 ? "\t20 step (/bin/app)\n" : ""}\t30 main (/bin/app)\n\n`;
  }
  return text;
}
// One wide function, and 30,000 that are too narrow to be seen.
const MANY = `wide;hot 40000\n${Array.from({ length: 30_000 }, (_, i) => `many;f${i};leaf${i % 7} 1\n`).join("")}`;
const FLAT = `main;parse;read_[k] 20\nmain;parse;decode 5\nmain;decode 40\nmain;wait_[k];decode 30\nmain;${NASTY} 5\n`;

let browser;
let server;
const pages = {};
before(async () => {
  browser = await launch();
  Object.assign(pages, {
    flat: make("flat", FLAT, "--unit", "samples"), timed: make("timed", recording()), many: make("many", MANY),
    dark: make("dark", FLAT, "--theme", "dark"), empty: make("empty", "main 0\n"),
  });
  const [old, now] = ["old", "now"].map((name) => join(folder, `${name}.folded`));
  writeFileSync(old, "main;a 500\nmain;b 500\nmain;gone 300\n");
  writeFileSync(now, "main;a 900\nmain;b 480\n");
  pages.diff = join(folder, "diff.html");
  execFileSync(BINARY, ["diff", old, now, "--unit", "samples", "-o", pages.diff], { stdio: "ignore" });
  const flat = readFileSync(pages.flat, "utf8");
  const timed = readFileSync(pages.timed, "utf8");
  server = await serve({
    "/flat.html": flat,
    "/sandbox.html": `<!doctype html><iframe id="in" sandbox="allow-scripts" src="/timed.html" width="900" height="600"></iframe>`,
    "/timed.html": timed,
    // As if the page had more than two million stacks, and a policy without workers.
    "/slices.html": noWorkers(timed),
    "/worker.html": noLimit(timed),
  });
});
after(async () => {
  await browser?.close();
  server?.close();
  rmSync(folder, { recursive: true });
});
const noLimit = (page) => withoutPolicy(page).replace("MANY = 2e6", "MANY = 1").replace("MANY=2e6", "MANY=1");
const withoutPolicy = (page) => page.replace(/<meta http-equiv="Content-Security-Policy"[^>]*>/, "");
const noWorkers = (page) => noLimit(page).replace("<meta name=\"viewport\"",
  "<meta http-equiv=\"Content-Security-Policy\" content=\"worker-src 'none'\"><meta name=\"viewport\"");

async function open(url, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1200, height: 800 }, permissions: ["clipboard-read", "clipboard-write"], ...options,
  });
  context.setDefaultTimeout(60_000);
  const tab = await context.newPage();
  tab.said = [];
  tab.asked = [];
  tab.on("console", (message) => tab.said.push(message.text()));
  tab.on("pageerror", (error) => tab.said.push(error.message));
  tab.on("request", (request) => tab.asked.push(request.url()));
  await tab.goto(url);
  await tab.waitForSelector("#path button");
  return tab;
}
const file = (name, hash = "") => pathToFileURL(pages[name]).href + hash;
async function close(tab) {
  assert.deepEqual(tab.said.filter((text) => !text.includes("favicon")), [], "the console is silent");
  await tab.context().close();
}
const hash = (tab) => tab.evaluate(() => location.hash);
const path = (tab) => tab.locator("#path").textContent();
const tree = (tab) => tab.locator("#keys [role=treeitem]").allTextContents();
const chosen = (tab) => tab.locator("#keys [aria-selected=true]").textContent();
const rows = (tab, list = "list") => tab.locator(`#${list} .row`).allTextContents();
/** What is drawn at a share of the width in a row of the flame graph. */
async function clickAt(tab, share, row, options) {
  const box = await tab.locator("#canvas").boundingBox();
  await tab.mouse.click(box.x + share * box.width, box.y + row * 18 + 9, options);
}
async function until(tab, check, message) {
  for (let left = 40; left > 0; left--) {
    if (await check()) { return; }
    await tab.waitForTimeout(50);
  }
  assert.fail(message ?? String(check));
}

test("a page asks nobody for anything, and names are text", async () => {
  const tab = await open(file("flat"));
  assert.deepEqual(tab.asked, [file("flat")]);
  assert.equal(await tab.title(), "flat & <b>");
  assert.equal(await tab.locator("#title").textContent(), "flat & <b>");
  assert.equal(await tab.locator("img").count(), 0);
  const titles = await tab.locator("#list .name").evaluateAll((all) => all.map((of) => of.title));
  assert.ok(titles.includes(NASTY), "the name is in the table as it is");
  assert.match(await tab.locator("#line").textContent(), /100 samples/);
  await close(tab);
});

test("the policy of the page forbids scripts and requests that are not its own", async () => {
  const tab = await open(file("flat"));
  const done = await tab.evaluate(async () => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.body.append(script);
    const asked = await fetch("http://127.0.0.1:9/").then(() => "answered", () => "refused");
    return [window.ran === true, asked];
  });
  assert.deepEqual(done, [false, "refused"]);
  await tab.context().close();
});

test("arrow keys go through the graph, Enter zooms, Escape zooms out", async () => {
  const tab = await open(file("flat"));
  await tab.locator("#keys").focus();
  await tab.keyboard.press("ArrowDown");
  await until(tab, async () => (await chosen(tab)) === "main, 100 samples, 100.00%");
  await tab.keyboard.press("ArrowDown");
  await until(tab, async () => (await chosen(tab)).startsWith("decode, 40 samples"));
  await tab.keyboard.press("ArrowRight");
  await until(tab, async () => (await chosen(tab)).startsWith("parse, 25 samples"));
  await tab.keyboard.press("Enter");
  await until(tab, async () => (await path(tab)).startsWith("all › main › parse"));
  assert.match(decodeURIComponent(await hash(tab)), /zoom=\|main;parse&selected=zoom/);
  assert.deepEqual((await tree(tab)).map((text) => text.split(",")[0]), ["all", "main", "parse", "read", "decode"]);
  const level = await tab.locator("#keys [aria-selected=true]").getAttribute("aria-level");
  assert.equal(level, "3");
  await tab.keyboard.press("Escape");
  await until(tab, async () => (await path(tab)).startsWith("all \u2003"));
  await tab.keyboard.press("ArrowUp");
  await close(tab);
});

test("a click zooms, Back and Forward go through what was seen", async () => {
  const tab = await open(file("flat"));
  await clickAt(tab, 0.2, 2);
  await until(tab, async () => (await path(tab)).includes("decode"));
  const zoomed = await hash(tab);
  await tab.locator("[data-view=tree]").click();
  await until(tab, () => tab.locator("#tree-view").isVisible());
  await tab.goBack();
  await until(tab, () => tab.locator("#scroller").isVisible());
  assert.equal(await hash(tab), zoomed);
  await tab.goBack();
  await until(tab, async () => (await path(tab)).startsWith("all \u2003"));
  await tab.goForward();
  await until(tab, async () => (await path(tab)).includes("decode"));
  await close(tab);
});

test("a link opens what it was copied from, in another tab", async () => {
  const tab = await open(file("timed", "#range=0.5..1&group=thread&view=callers&search=parse&up=1"));
  await tab.keyboard.press("t");
  await tab.locator("#list .row").first().click();
  await tab.locator("#detail button", { hasText: "Focus" }).click();
  await tab.locator("#link").click();
  const link = await tab.evaluate(() => navigator.clipboard.readText());
  assert.match(link, /range=0\.5\.\.1&focus=/);
  const other = await open(link);
  const all = (of) => of.evaluate(() => ["path", "list", "callers", "callees", "chips", "found", "range", "function", "count"]
    .map((id) => document.getElementById(id).textContent));
  assert.deepEqual(await all(other), await all(tab));
  await close(other);
  await close(tab);
});

test("a search counts all samples, also in frames too narrow to be seen, and lights their column", async () => {
  const tab = await open(file("many"));
  await tab.keyboard.press("/");
  await tab.keyboard.type("^leaf3$");
  const expect = `${(100 * 4286 / 70_000).toFixed(2)}% of all`;
  await until(tab, async () => (await tab.locator("#found").textContent()).includes(expect), await tab.locator("#found").textContent());
  const lit = await tab.evaluate(() => {
    const canvas = document.getElementById("canvas");
    const { data } = canvas.getContext("2d").getImageData(0, canvas.height - 4, canvas.width, 1);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) { if (data[i] > data[i + 1] + 40 && data[i + 3] > 0) { count++; } }
    return count;
  });
  assert.ok(lit > 100, `${lit} pixels below are lit`);
  await tab.keyboard.press("Escape");
  await tab.keyboard.press("n");
  await until(tab, async () => (await tab.locator("#found").textContent()).startsWith("1/4,286"));
  await tab.keyboard.press("N");
  await until(tab, async () => (await tab.locator("#found").textContent()).startsWith("4,286/4,286"));
  await tab.locator("#search").fill("(");
  assert.equal(await tab.locator("#search").getAttribute("aria-invalid"), "true");
  await close(tab);
});

test("in the map of seconds a drag goes from one moment to another", async () => {
  // Samples each 10 ms: from 0.2 s of the clock's second 10 to 0.7 s, and from 0.7 s of second 11 to 0.2 s of second 12.
  const text = [];
  const times = [];
  for (let i = 0; i < 100; i++) {
    times.push((i < 50 ? 10.205 + i * 0.01 : 11.205 + i * 0.01));
    text.push(`app 7/8 [000] ${times[i].toFixed(6)}: 10000000 cpu-clock: `, `\t 4a1 ${i < 50 ? "early" : "late"}+0x1 (/bin/app)`, "");
  }
  const page = join(folder, "seconds.html");
  execFileSync(BINARY, ["heatmap", "--offsets", "-o", page], { input: text.join("\n") });
  const tab = await open(pathToFileURL(page).href);
  assert.equal(await tab.locator("#seconds").getAttribute("aria-pressed"), "true", "it opens with it");
  const box = await tab.locator("#timeline").boundingBox();
  // Columns of 48 pixels; the axis takes 16.
  const at = (second, part) => [box.x + (second - 10 + 0.5) * 48, box.y + (box.height - 16) * (1 - part)];
  await tab.mouse.move(...at(10, 0.5));
  await tab.mouse.down();
  await tab.mouse.move(...at(11, 0.5), { steps: 3 });
  await tab.mouse.move(...at(11, 0.9));
  await tab.mouse.up();
  const expect = times.filter((time) => time >= 10.5 && time < 11.9).length;
  await until(tab, async () => (await tab.locator("#sample-count").textContent()).includes(` ${expect} samples`),
    await tab.locator("#sample-count").textContent());
  assert.ok((await rows(tab)).some((row) => row.includes("late")) && (await rows(tab)).some((row) => row.includes("early")));
  await tab.mouse.move(...at(10, 0.6));
  assert.match(await tab.locator("#tip").textContent(), /^20\.0 ms.*into each 1/, "two samples lie in a cell of 20 ms");
  await tab.keyboard.press("s");
  assert.equal(await tab.locator("#seconds").getAttribute("aria-pressed"), "false");
  assert.match(await hash(tab), /times=load/);
  await close(tab);
});

test("a drag in the timeline shows its range everywhere, a second one with Shift compares", async () => {
  const tab = await open(file("timed"));
  const box = await tab.locator("#timeline").boundingBox();
  const drag = async (from, to) => {
    await tab.mouse.move(box.x + from * box.width, box.y + 10);
    await tab.mouse.down();
    await tab.mouse.move(box.x + (from + to) / 2 * box.width, box.y + 12);
    await tab.mouse.move(box.x + to * box.width, box.y + 10);
    await tab.mouse.up();
  };
  await drag(0.1, 0.45);
  await until(tab, async () => /^#.*range=/.test(await hash(tab)));
  await until(tab, async () => (await rows(tab)).every((row) => !row.includes("eval")));
  await tab.keyboard.down("Shift");
  await drag(0.6, 0.95);
  await tab.keyboard.up("Shift");
  await until(tab, async () => (await tab.locator("#range").textContent()).includes("compared with"));
  await until(tab, async () => (await rows(tab)).some((row) => /eval/.test(row)), "the other side's functions are listed");
  assert.match(await tab.locator("#legend").textContent(), /beyond noise/);
  await tab.goBack();
  await until(tab, async () => !(await tab.locator("#range").textContent()).includes("compared with"));
  await tab.locator("#all-time").click();
  await until(tab, async () => !/range=/.test(await hash(tab)));
  await tab.locator("#timeline").focus();
  await tab.keyboard.press("Enter");
  await until(tab, async () => /range=0\.\.0\.99/.test(await hash(tab)), await hash(tab));
  await tab.keyboard.press("Escape");
  await until(tab, async () => !/range=/.test(await hash(tab)));
  await close(tab);
});

test("filters are chips in the words of the command line, and the command makes the same", async () => {
  const tab = await open(file("timed"));
  await tab.locator("#list .row", { hasText: "step" }).click();
  await tab.locator("#detail b").click();
  await tab.keyboard.press("h");
  await until(tab, async () => (await tab.locator("#chips").textContent()).includes("hide ^step$"));
  assert.ok((await rows(tab)).every((row) => !row.includes("step")));
  await tab.keyboard.press("r");
  await tab.selectOption("#group", "thread");
  await tab.locator("#command").click();
  const command = await tab.evaluate(() => navigator.clipboard.readText());
  assert.match(command, /^pyrograph flamegraph --inverted --hide='\^step\$' --fold-recursion --by thread timed.html -o flamegraph.svg$/);
  const folded = execFileSync("sh", ["-c", command.replace("pyrograph flamegraph --inverted", '"$0" fold').replace(/-o \S+$/, ""), BINARY],
    { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  assert.ok(!folded.includes("step") && folded.includes("worker-70/71;main"));
  await tab.locator("#chips button").first().click();
  await until(tab, async () => (await tab.locator("#chips button").count()) === 1);
  await tab.locator("#canvas").hover();
  await tab.keyboard.press("Backspace");
  await until(tab, async () => (await tab.locator("#chips button").count()) === 0);
  await close(tab);
});

test("the other keys do what they say", async () => {
  const tab = await open(file("timed"));
  await tab.keyboard.press("?");
  await until(tab, () => tab.locator("#keys-help").isVisible());
  const keys = await tab.locator("#keys-help kbd").count();
  assert.ok(keys > 10);
  await tab.keyboard.press("Escape");
  await tab.keyboard.press("i");
  await until(tab, async () => /upright=1/.test(await hash(tab)));
  await tab.keyboard.press("i");
  await tab.keyboard.press("2");
  await until(tab, () => tab.locator("#tree-view").isVisible());
  await tab.keyboard.press("3");
  await until(tab, () => tab.locator("#callers-view").isVisible());
  await tab.keyboard.press("1");
  await tab.keyboard.press("t");
  await until(tab, async () => (await tab.locator("#threads").getAttribute("aria-pressed")) === "true");
  await tab.locator("#list").focus();
  await tab.keyboard.press("ArrowDown");
  const name = await tab.locator("#detail b").textContent();
  await tab.keyboard.press("Escape");
  await tab.keyboard.press("c");
  await until(tab, async () => (await tab.evaluate(() => navigator.clipboard.readText())) === name);
  await clickAt(tab, 0.5, 3);
  await tab.keyboard.press("C");
  await until(tab, async () => /^worker;main;step/.test(await tab.evaluate(() => navigator.clipboard.readText())));
  for (const [key, kind] of [["f", "focus"], ["b", "from frame"], ["x", "ignore"]]) {
    await tab.locator("#list").focus();
    await tab.keyboard.press("Home");
    await tab.keyboard.press(key);
    await until(tab, async () => (await tab.locator("#chips").textContent()).includes(kind), kind);
    await tab.keyboard.press("Backspace");
    await until(tab, async () => (await tab.locator("#chips").textContent()) === "");
  }
  await close(tab);
});

test("the table sorts and filters, the tree opens from the root and from the leaves", async () => {
  const tab = await open(file("flat"));
  await tab.locator("#heads button", { hasText: "name" }).click();
  await until(tab, async () => (await rows(tab)).some((row) => row.includes("decode")));
  const names = (await rows(tab)).map((row) => row.replace(/^[\d.]+%[\d.]+%/, ""));
  assert.deepEqual(names, [...names].sort());
  await tab.locator("#filter").fill("^dec");
  await until(tab, async () => (await tab.locator("#count").textContent()) === "1 function");
  await tab.locator("#filter").fill("");
  await tab.locator("[data-view=tree]").click();
  await until(tab, async () => (await rows(tab, "tree")).length > 1);
  await tab.locator("#tree").focus();
  await tab.keyboard.press("End");
  const before = (await rows(tab, "tree")).length;
  await tab.keyboard.press("Home");
  await tab.keyboard.press("ArrowLeft");
  await until(tab, async () => (await rows(tab, "tree")).length < before);
  await tab.locator("#up").click();
  await until(tab, async () => /^75\.00%.*decode/.test((await rows(tab, "tree"))[0]), (await rows(tab, "tree"))[0]);
  await close(tab);
});

test("the wheel pans and zooms", async () => {
  const tab = await open(file("flat"));
  await tab.locator("#canvas").hover();
  await tab.keyboard.down("Control");
  await tab.mouse.wheel(0, -200);
  await tab.keyboard.up("Control");
  await until(tab, async () => /span=/.test(await hash(tab)));
  const first = await hash(tab);
  await tab.keyboard.down("Shift");
  await tab.mouse.wheel(0, 60);
  await tab.keyboard.up("Shift");
  await until(tab, async () => (await hash(tab)) !== first);
  await tab.locator("#keys").focus();
  await tab.keyboard.press("Escape");
  await until(tab, async () => !/span=/.test(await hash(tab)));
  await close(tab);
});

test("two fingers zoom, one pans", async () => {
  const tab = await open(file("flat"), { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
  const touch = await tab.context().newCDPSession(tab);
  const box = await tab.locator("#canvas").boundingBox();
  const send = (type, ...shares) => touch.send("Input.dispatchTouchEvent", { type,
    touchPoints: shares.map((share, id) => ({ id, x: box.x + share * box.width, y: box.y + 40 })) });
  const span = async () => {
    const [from, to] = (/span=([\d.e-]+?)\.\.([\d.e-]+)/.exec(await hash(tab)) ?? ["", "0", "1"]).slice(1).map(Number);
    return { from, size: to - from };
  };
  await send("touchStart", 0.4, 0.6);
  for (const step of [1, 2, 3, 4, 5]) { await send("touchMove", 0.4 - 0.06 * step, 0.6 + 0.06 * step); }
  await send("touchEnd");
  await until(tab, async () => (await span()).size < 0.5);
  const zoomed = await span();
  // What was between the fingers is still there: they began at 0.4 and 0.6, and are at 0.1 and 0.9.
  assert.ok(Math.abs(zoomed.size - 0.25) < 0.06 && Math.abs(zoomed.from + zoomed.size / 2 - 0.5) < 0.03, JSON.stringify(zoomed));
  await send("touchStart", 0.8);
  for (const step of [1, 2, 3, 4]) { await send("touchMove", 0.8 - 0.1 * step); }
  await send("touchEnd");
  await until(tab, async () => (await span()).from > zoomed.from + 0.05);
  assert.ok(Math.abs((await span()).size - zoomed.size) < 1e-6, "one finger does not zoom");
  await close(tab);
});

test("on a telephone there are tabs, a tap selects and a second one zooms", async () => {
  const tab = await open(file("timed"), { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
  const small = await tab.evaluate(() => [...document.querySelectorAll("button,select,input")]
    .filter((of) => of.offsetParent && !of.closest("#path") && of.getBoundingClientRect().height < 40).map((of) => of.id));
  assert.deepEqual(small, []);
  assert.equal(await tab.evaluate(() => document.documentElement.scrollWidth), 360);
  const box = await tab.locator("#canvas").boundingBox();
  const tap = () => tab.touchscreen.tap(box.x + box.width * 0.7, box.y + 2 * 28 + 9);
  await tap();
  await until(tab, async () => /selected=/.test(await hash(tab)));
  assert.doesNotMatch(await hash(tab), /zoom=/);
  await tap();
  await until(tab, async () => /zoom=/.test(await hash(tab)));
  for (const pane of ["table", "detail", "time", "main"]) {
    await tab.locator(`[data-pane=${pane}]`).tap();
    await until(tab, () => tab.locator(`#${pane}`).isVisible());
  }
  await close(tab);
});

test("Detail has source and instructions of a hot function", async (context) => {
  const program = join(folder, "hot");
  writeFileSync(`${program}.c`, `volatile unsigned long sink;
__attribute__((noinline)) void hot(void) {
  for (unsigned long i = 1; i < 900000000ul; i++)
    sink = sink / (i | 1); // <b>bold</b>
}
int main(void) { hot(); return 0; }
`);
  execFileSync("gcc", ["-O1", "-g", "-o", program, `${program}.c`]);
  const page = `${program}.html`;
  try {
    execFileSync(BINARY, ["record", "-d", "1", "--user-only", "-o", page, "--", program], { stdio: "ignore" });
  } catch (error) {
    // A recording that ends before its command hands on how that ended.
    if (!existsSync(page)) { console.log("skipped: source in the viewer needs the right to record"); context.skip(); return; }
  }
  const tab = await open(pathToFileURL(page).href);
  await tab.locator("#list .row", { hasText: "hot" }).first().click();
  const detail = tab.locator("#detail");
  await until(tab, async () => (await detail.locator("summary").textContent()).startsWith("Source and instructions"));
  const rows = await detail.locator("pre > div").allTextContents();
  assert.ok(rows.some((row) => row.includes("sink = sink / (i | 1); // <b>bold</b>")), rows.join("\n"));
  assert.ok(rows.some((row) => /\bdiv/.test(row)), rows.join("\n"));
  // The shares are of the function: together all of it, to the rounding of each.
  const shares = (await detail.locator("pre .share").allTextContents()).map(Number);
  assert.ok(Math.abs(shares.reduce((sum, share) => sum + share, 0) - 100) < 0.5, String(shares));
  assert.equal(await detail.locator("pre b").count(), 0, "source is text");
  await close(tab);
});

test("both sides of a comparison, with verdicts for what is whole", async () => {
  const tab = await open(file("diff"));
  const first = await rows(tab);
  assert.ok(first.some((row) => /\+26\.\d+.*a$/.test(row)), first.join("\n"));
  assert.ok(first.some((row) => /gone/.test(row)), "what is gone is in the table");
  assert.ok(await tab.locator("#list .more").count() > 0);
  await tab.locator("#list .row", { hasText: "gone" }).click();
  assert.match(await tab.locator("#detail").textContent(), /less beyond noise at 95 %/);
  await tab.selectOption("#side", "before");
  await until(tab, async () => /side=before/.test(await hash(tab)));
  await tab.keyboard.press("Escape");
  await tab.locator("#detail b").click();
  await tab.keyboard.press("x");
  await until(tab, async () => (await tab.locator("#legend").textContent()).includes("not judged"));
  await close(tab);
});

test("it works in a sandboxed frame", async () => {
  const context = await browser.newContext();
  const tab = await context.newPage();
  const said = [];
  tab.on("pageerror", (error) => said.push(error.message));
  await tab.goto(`${server.address}/sandbox.html`);
  const frame = tab.frameLocator("#in");
  await frame.locator("#path button").first().waitFor();
  await frame.locator("[data-view=tree]").click();
  await frame.locator("#tree .row").first().waitFor();
  await frame.locator("#search").fill("parse");
  await frame.locator("#found", { hasText: "of all" }).waitFor();
  assert.deepEqual(said, []);
  await context.close();
});

test("a large profile is added up in a worker, and in slices where workers are refused", async () => {
  const plain = await open(`${server.address}/timed.html#group=thread&focus=parse`);
  const expect = [await path(plain), await rows(plain)];
  await close(plain);
  for (const page of ["worker", "slices"]) {
    const tab = await open(`${server.address}/${page}.html#group=thread&focus=parse`);
    await until(tab, async () => (await rows(tab)).length === expect[1].length);
    assert.deepEqual([await path(tab), await rows(tab)], expect, page);
    await tab.selectOption("#group", "none");
    await until(tab, async () => (await tree(tab))[1]?.startsWith("main"), page);
    assert.equal(await tab.locator("#notes").textContent(), "", page);
    await tab.context().close();
  }
});

test("light, dark and print", async () => {
  const paper = (tab) => tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
  for (const [name, colorScheme, expect] of [["flat", "light", "rgb(255, 255, 255)"], ["flat", "dark", "rgb(23, 23, 27)"],
    ["dark", "light", "rgb(23, 23, 27)"]]) {
    const tab = await open(file(name), { colorScheme });
    assert.equal(await paper(tab), expect);
    await tab.emulateMedia({ media: "print", colorScheme });
    assert.equal(await paper(tab), "rgb(255, 255, 255)", "paper is light");
    await close(tab);
  }
});

test("a profile of nothing says so", async () => {
  const tab = await open(file("empty"));
  assert.match(await tab.locator("#notes").textContent(), /nothing to show/);
  await close(tab);
});

/** Text of `perf script`: stacks from the root as `name (module)`, one after the other 10 ms apart. */
const script = (comm, tid, ...stacks) => stacks.map((frames, i) => `${comm} ${tid}/${tid} [000] ${(5 + i / 100).toFixed(6)}: 1000000 cycles:\n` +
  [...frames].reverse().map((frame) => `\t10 ${frame.includes("(") ? frame : `${frame} (/bin/${comm})`}\n`).join("") + "\n").join("");
function page(name, input, ...options) {
  pages[name] = make(name, input, ...options);
  return name;
}
const times = (count, stack) => Array.from({ length: count }, () => stack);
const detail = (tab) => tab.locator("#detail").textContent();
const notes = (tab) => tab.locator("#notes").textContent();

test("a frame shows the numbers of its own function, and not of another of that name", async () => {
  page("modules", script("alpha", 1, ...times(10, ["main"]), ...times(10, ["main", "f"])) +
    script("beta", 2, ...times(30, ["main"]), ...times(5, ["main", "g"])));
  const tab = await open(file("modules", "#group=none"));
  await clickAt(tab, 0.5, 1);
  // Without groups both are one frame, which is of two functions.
  await until(tab, async () => (await detail(tab)).includes("/bin/alpha: 20,000,000"), await detail(tab));
  assert.match(await detail(tab), /here55,000,000 cycles, 100.00%; itself 40,000,000.*\/bin\/beta: 35,000,000/);
  assert.equal(await tab.locator("#list .chosen").count(), 0);
  await tab.locator("#canvas").hover({ position: { x: 300, y: 27 } });
  assert.match(await tab.locator("#tip").textContent(), /in 2 modules$/);
  await tab.locator("#detail dd button", { hasText: "beta" }).click();
  await until(tab, async () => (await detail(tab)).includes("module/bin/beta"));
  await tab.selectOption("#group", "name");
  await tab.locator("#keys").focus();
  await tab.keyboard.press("Escape");
  await clickAt(tab, 0.9, 2);
  await until(tab, async () => /self30,000,000 cycles, 54\.55%.*total35,000,000.*module\/bin\/beta/.test(await detail(tab)), await detail(tab));
  assert.equal(await tab.locator("#list .chosen .module").getAttribute("title"), "/bin/beta");
  await tab.keyboard.press("3");
  await until(tab, async () => /^main: 63\.64% total, 54\.55% self$/.test(await tab.locator("#function").textContent()));
  assert.deepEqual(await rows(tab, "callees"), ["9.09%gbeta"]);
  await close(tab);
});

test("a search takes upper and lower case alike unless it has upper case, and marks what it found everywhere", async () => {
  page("search", "main;JSON::read 30\nmain;json_read 20\nmain;other 50\n", "--unit", "samples");
  const tab = await open(file("search"));
  const found = (text) => until(tab, async () => (await tab.locator("#found").textContent()).startsWith(text), text);
  await tab.locator("#search").fill("json");
  await found("2: 50.00% of all");
  assert.deepEqual(await tab.locator("#list .found").allTextContents(), ["JSON::read", "json_read"]);
  await tab.locator("#search").fill("JSON");
  await found("1: 30.00% of all");
  await tab.locator("#case").click();
  await found("2: 50.00% of all");
  assert.match(await hash(tab), /case=ignore/);
  await tab.locator("#case").click();
  assert.doesNotMatch(await hash(tab), /case=/);
  await tab.locator("#search").fill("(?i)JSON");
  await found("2: 50.00% of all");
  await tab.locator("[data-view=tree]").click();
  await until(tab, async () => (await tab.locator("#tree .found").count()) === 2);
  await tab.locator("#list .row", { hasText: "main" }).click();
  await tab.locator("[data-view=callers]").click();
  await until(tab, async () => (await tab.locator("#callees .found").count()) === 2);
  await tab.locator("#search").fill("(read");
  await found("No regular expression: unterminated group");
  await close(tab);
  // The letters are one step of the history, and what was there before them is the one before.
  const again = await open(file("search", "#view=tree"));
  await again.locator("#search").pressSequentially("json");
  await until(again, async () => (await hash(again)) === "#view=tree&search=json");
  await again.goBack();
  await until(again, async () => (await hash(again)) === "#view=tree");
  await again.goForward();
  await until(again, async () => (await hash(again)) === "#view=tree&search=json");
  await close(again);
});

test("a filter of a link that cannot be read is named, and nothing else is shown", async () => {
  for (const [wrong, words] of [["focus=(", "unterminated group"], ["tid=main", "no number of a thread"], ["range=now", "no range of seconds"]]) {
    const tab = await open(file("timed")).then(async (of) => { await of.goto("about:blank"); return of; });
    await tab.goto(file("timed", `#hide=step&${wrong}`));
    await until(tab, async () => (await notes(tab)).includes(words), await notes(tab));
    assert.ok(!await tab.locator("main").isVisible() && !await tab.locator("#time").isVisible(), wrong);
    await tab.locator("#chips .wrong").click();
    await until(tab, () => tab.locator("#canvas").isVisible());
    assert.equal(await notes(tab), "");
    assert.equal(await hash(tab), "#hide=step");
    await close(tab);
  }
});

test("a zoom is a path of names: it outlives groups and filters, and another recording", async () => {
  const tab = await open(file("timed"));
  await clickAt(tab, 0.9, 4);
  const names = async () => (await path(tab)).split(" \u2003")[0].split(" \u203a ");
  const first = await names();
  assert.deepEqual(first.slice(0, 4), ["all", "worker", "main", "step"]);
  await tab.selectOption("#group", "thread");
  await until(tab, async () => (await names())[1] === "worker-70/71", String(await names()));
  assert.deepEqual((await names()).slice(2), first.slice(2));
  const other = await open(file("timed", await hash(tab)));
  assert.deepEqual(await names(), (await path(other)).split(" \u2003")[0].split(" \u203a "));
  await close(other);
  await tab.selectOption("#group", "none");
  await until(tab, async () => (await names()).join() === ["all", ...first.slice(2)].join(), String(await names()));
  const link = await hash(tab);
  await tab.locator("#canvas").hover();
  await tab.locator("#group").blur();
  await tab.keyboard.press("r");
  await until(tab, async () => (await names()).join() === "all,main,step", String(await names()));
  await close(tab);
  // In another recording the same names, or words.
  const elsewhere = await open(file(page("other", script("worker", 9, ["main", "step", "step", "eval"], ["aaa"], ["main", "zzz"])), link));
  assert.match(await path(elsewhere), /main › step › step/);
  await elsewhere.goto("about:blank");
  await elsewhere.goto(file("other", "#zoom=%7Cmain%3Bnowhere"));
  await until(elsewhere, async () => (await notes(elsewhere)) === "Not here: nowhere", await notes(elsewhere));
  assert.doesNotMatch(await hash(elsewhere), /zoom/);
  await close(elsewhere);
});

test("a comparison is painted by its verdicts, by the whole of a frame", async () => {
  const [old, now] = ["old2", "now2"].map((name) => join(folder, `${name}.folded`));
  // Of `caller` itself there is less, and more of it in all.
  writeFileSync(old, "main;caller 300\nmain;caller;callee 100\nmain;rest 600\nmain;same 101\n");
  writeFileSync(now, "main;caller 100\nmain;caller;callee 600\nmain;rest 300\nmain;same 100\n");
  pages.colours = join(folder, "colours.html");
  execFileSync(BINARY, ["diff", old, now, "--unit", "samples", "-o", pages.colours], { stdio: "ignore" });
  const tab = await open(file("colours"));
  const colour = (share, row) => tab.evaluate(([x, y]) => {
    const canvas = document.getElementById("canvas");
    return [...canvas.getContext("2d").getImageData(Math.round(x * canvas.width), y * 18 + 2, 1, 1).data.slice(0, 3)];
  }, [share, row]);
  const isRed = ([r, g, b]) => r > b + 60 && r > g + 60;
  const isBlue = ([r, , b]) => b > r + 60;
  const isGrey = ([r, g, b]) => Math.max(r, g, b) - Math.min(r, g, b) < 12;
  assert.ok(isRed(await colour(0.3, 2)), `caller: ${await colour(0.3, 2)}`);
  assert.ok(isBlue(await colour(0.8, 2)), `rest: ${await colour(0.8, 2)}`);
  assert.ok(isGrey(await colour(0.95, 2)), `same: ${await colour(0.95, 2)}`);
  assert.ok(isGrey(await colour(0.5, 1)), "main");
  assert.match(await tab.locator("#legend").textContent(), /^moresame or noiseless▲ ▼ beyond noise$/);
  await tab.context().close();
});

test("what was lost is hatched, and is no idle time", async () => {
  const stacks = Array.from({ length: 100 }, (_, i) => i >= 40 && i < 60 ? ["[lost] ([unknown])"] : ["main"]);
  for (const view of ["load", "threads", "seconds"]) {
    const tab = await open(file(page("lost", script("app", 7, ...stacks)), `#times=${view}`));
    assert.equal(await tab.locator("#lost").textContent(), "20,000,000 cycles lost, hatched");
    const colours = (from, to) => tab.evaluate(([a, b]) => {
      const canvas = document.getElementById("timeline");
      // In the map of seconds time goes upwards, in the others to the right.
      const isMap = document.getElementById("seconds").getAttribute("aria-pressed") === "true";
      const tall = canvas.height - 16;
      const box = isMap ? [10, tall * (1 - b), 20, tall * (b - a)] : [a * canvas.width, 8, (b - a) * canvas.width, 12];
      const { data } = canvas.getContext("2d").getImageData(...box.map(Math.round));
      return new Set(Array.from({ length: data.length / 4 }, (_, i) => data.slice(4 * i, 4 * i + 3).join())).size;
    }, [from, to]);
    assert.ok(await colours(0.45, 0.55) >= 5, `${view}: ${await colours(0.45, 0.55)} colours of stripes`);
    assert.ok(await colours(0.1, 0.2) <= 3, `${view}: ${await colours(0.1, 0.2)} colours where nothing was lost`);
    await tab.context().close();
  }
});

test("marks of names are kinds, numbers are whole, remarks go", async () => {
  const tab = await open(file("flat"));
  assert.ok((await rows(tab)).every((row) => !row.includes("_[")), String(await rows(tab)));
  await tab.locator("#list .row", { hasText: "wait" }).click();
  assert.match(await detail(tab), /^wait.*kindkernel/);
  await tab.locator("#detail button", { hasText: "Hide" }).click();
  await until(tab, async () => (await rows(tab)).every((row) => !row.includes("wait")), "the filter has the whole name");
  await tab.keyboard.press("Backspace");
  const cut = await tab.evaluate(() => [...document.querySelectorAll(".row .n")].filter((of) => of.scrollWidth > of.clientWidth).length);
  assert.equal(cut, 0, "numbers that are cut");
  assert.equal(await tab.locator("#next").evaluate((of) => getComputedStyle(of).opacity), "0.4", "it cannot be pressed, and shows it");
  await tab.locator("#link").click();
  await until(tab, async () => (await tab.locator("#said").textContent()) === "Link copied");
  for (const [filter, words] of [["^nowhere$", /no sample passes the filters/], ["", /^$/]]) {
    await tab.evaluate((text) => { location.hash = text && `focus=${text}`; }, filter);
    await until(tab, async () => words.test(await notes(tab)), `${filter}: ${await notes(tab)}`);
  }
  await tab.waitForFunction(() => document.getElementById("said").textContent === "", null, { timeout: 8000 });
  await close(tab);
});

test("where scripts are forbidden there is a flame graph, and a sentence", async () => {
  const flat = readFileSync(pages.flat, "utf8");
  const policies = ["sandbox; default-src 'none'; style-src 'self'", "script-src 'none'"];
  const server = createServer((request, response) => {
    response.writeHead(200, { "content-type": "text/html; charset=utf-8", "content-security-policy": policies[Number(request.url.slice(1))] });
    response.end(flat);
  });
  await new Promise((done) => { server.listen(0, "127.0.0.1", done); });
  const context = await browser.newContext();
  for (const i of policies.keys()) {
    const tab = await context.newPage();
    await tab.goto(`http://127.0.0.1:${server.address().port}/${i}`);
    assert.match(await tab.locator("#still").textContent(), /does not run the script.*main/s);
    const wide = await tab.locator("#still rect").evaluateAll((all) => all.map((of) => of.getBoundingClientRect().width));
    assert.ok(wide.length >= 5 && wide[0] > 500, `${policies[i]}: ${wide}`);
    assert.ok(!await tab.locator("#search").isVisible(), "nothing that does nothing");
    assert.ok(await tab.locator("#still text", { hasText: "decode" }).first().isVisible());
    await tab.close();
  }
  await context.close();
  server.close();
  const tab = await open(file("flat"));
  assert.ok(!await tab.locator("#still").isVisible());
  await close(tab);
});

// Long names that begin or end alike, as compilers and virtual machines write them.
const JAVA = "void java.util.ComparableTimSort.";
const ALIKE = [
  `${JAVA}mergeLo(java.lang.Object[], int, int, int, int)`, `${JAVA}mergeHi(java.lang.Object[], int, int, int, int)`,
  `${JAVA}mergeAt(int)`, `${JAVA}sort(java.lang.Object[], int, int, java.lang.Object[], int, int)`,
  "com.acme.billing.service.impl.InvoiceServiceImpl.findOpenInvoices", "com.acme.billing.service.impl.InvoiceServiceImpl.findOpenInvoicesOfCustomer",
  "com.acme.billing.service.impl.InvoiceServiceImpl.findOpenInvoicesOfMonth",
  "std::_Rb_tree<std::string, std::pair<std::string const, int>, std::_Select1st<std::pair<std::string const, int> > >::_M_insert_unique",
  "std::_Rb_tree<std::string, std::pair<std::string const, int>, std::_Select1st<std::pair<std::string const, int> > >::_M_insert_equal",
  "std::_Rb_tree<unsigned long, std::pair<unsigned long const, double>, std::_Select1st<std::pair<unsigned long const, double> > >::_M_insert_equal",
  "shop::checkout::Cart::add(shop::Item const&)", "shop::checkout::Cart::add(shop::Item&&)",
  "<alloc::vec::Vec<T,A> as core::iter::traits::collect::Extend<&T>>::extend", "<alloc::vec::Vec<T,A> as core::iter::traits::collect::Extend<T>>::extend",
  "core::iter::adapters::map::map_fold::{{closure}}", "core::iter::adapters::filter::filter_fold::{{closure}}",
  "hashbrown::raw::RawTable<(alloc::string::String, usize)>::reserve_rehash", "hashbrown::raw::RawTable<(u32, alloc::vec::Vec<u8>)>::reserve_rehash",
  "LazyCompile:*(anonymous) /srv/app/views/page.js:31:7", "LazyCompile:*(anonymous) /srv/app/views/page.js:40:12",
];
/** Runs in the page: what a reader sees of the first rows, so much of each text as is not cut off. */
function seenRows(count) {
  const seen = (cell) => {
    const text = cell.firstChild;
    if (!text || cell.scrollWidth <= cell.clientWidth) { return cell.textContent; }
    const range = document.createRange();
    let end = text.length;
    // The mark of what is cut off takes some room.
    for (; end > 0; end--) {
      range.setStart(text, 0);
      range.setEnd(text, end);
      if (range.getBoundingClientRect().width <= cell.clientWidth - 12) { break; }
    }
    return text.textContent.slice(0, end) + "\u2026";
  };
  return [...document.querySelectorAll("#list .row")].slice(0, count)
    .map((row) => [".name", ".module"].map((part) => seen(row.querySelector(part))).join(" in "));
}
test("no two of the first rows of a table look alike", async () => {
  pages.alike = make("alike", ALIKE.map((name, i) => `main;${name} ${1000 - i}\n`).join(""), "--unit", "samples");
  const inputs = ["alike"];
  // A program in Rust, where it may be recorded.
  pages.own = join(folder, "own.html");
  try {
    execFileSync(BINARY, ["record", "-q", "-F", "999", "-o", pages.own, "--", BINARY, "fold", join(folder, "many.txt")], { stdio: "ignore" });
    inputs.push("own");
  } catch {
    console.log("skipped: rows of a recording need the permission to record");
  }
  for (const name of inputs) {
    const tab = await open(file(name), { viewport: { width: 1440, height: 1000 } });
    const rows = await tab.evaluate(seenRows, 20);
    assert.equal(rows.length, 20);
    assert.deepEqual(rows.filter((row, i) => rows.indexOf(row) !== i), [], `${name}: ${rows.join("\n")}`);
    await close(tab);
  }
});
