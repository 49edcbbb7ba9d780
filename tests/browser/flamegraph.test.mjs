// Flame graphs in a real browser: alone, in <img>, in <object>, inline, mangled, without script.
//
// Run by ./run, which draws with target/debug/pyrograph and needs Debian's chromium.

import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { draw, drawDiff, launch, serve } from "./browser.mjs";

const FOLDED = `app;main;parse;read;vfs_read_[k] 20
app;main;parse;read;vfs_read_[k];ext4_read_[k] 30
app;main;parse;decode 15
app;main;parse;decode;read 5
app;main;Render::Text;shape<a]]>b 20
app;main;Render::Text;<script>alert(1)</script> 4
app;main;wait 6
`;
const OTHER = "job;start;compute 7\njob;start;store 3\n";
/** In FOLDED. */
const FRAMES = 13;

const svg = draw(FOLDED, "--title", "Parsing");
const other = draw(OTHER);
const embedded = draw(FOLDED, "--embed");
const page = (body) => `<!doctype html><meta charset="utf-8"><title>post</title>
<style>text,input,button,div{font-size:30px;color:red} svg{margin:3px}</style>
<p id="words">Words <input id="own"></p>${body}<p id="after">after</p>`;
const stripped = (text) => text.replace(/<script[\s\S]*?<\/script>/g, "");

let browser;
let server;

before(async () => {
  browser = await launch();
  server = await serve({
    "/graph.svg": svg,
    "/fixed.svg": draw(FOLDED, "--width", "700"),
    "/inverted.svg": draw(FOLDED, "--inverted", "--nametype", "Function:"),
    "/filtered.svg": draw(FOLDED, "--focus", "parse"),
    "/compare.svg": draw("main;a 10 5\nmain;b 5 20\n"),
    "/diff.svg": drawDiff(
      "main;parse 4000\nmain;render 6000\nmain;slow;scalar 1000\n",
      "main;parse 5500\nmain;render 5000\nmain;fast;simd 800\n",
    ),
    "/one-sided.svg": drawDiff("main 0\n", "main 5\n"),
    "/img.html": page('<img id="graph" src="/graph.svg">'),
    "/object.html": page('<object id="graph" data="/graph.svg" width="900" height="220"></object>'),
    "/inline.html": page(svg + other + svg),
    "/mangled.html": page(svg.replaceAll("]]>", "]]&gt;")),
    "/stripped.html": page(stripped(svg)),
    "/unstyled.html": page(stripped(svg).replace(/<style[\s\S]*?<\/style>/g, "").replaceAll(/ style="[^"]*"/g, "")),
    "/embedded.html": page(embedded),
  });
});

after(async () => {
  await browser?.close();
  server?.close();
});

/** Opens a path of the server, or a file; what the console says is an error. */
async function open(path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1000, height: 700 }, ...options });
  // A busy machine takes longer than the default of 30 s now and then.
  context.setDefaultTimeout(120_000);
  const tab = await context.newPage();
  tab.said = [];
  tab.on("console", (message) => tab.said.push(message.text()));
  tab.on("pageerror", (error) => tab.said.push(error.message));
  tab.on("dialog", (dialog) => { tab.said.push("a dialog"); dialog.dismiss(); });
  await tab.goto(path.includes("://") ? path : server.address + path);
  return tab;
}

async function close(tab) {
  const said = tab.said.filter((text) => !text.includes("favicon"));
  assert.deepEqual(said, [], "the console is silent");
  await tab.context().close();
}

/** The start and width of what a graph shows, in samples. */
async function view(tab, nth = 0) {
  const text = await tab.locator("svg.frames").nth(nth).getAttribute("viewBox");
  const [start, , width] = text.split(" ").map(Number);
  return { start, width };
}

/** Where a frame is on the screen: by the text on it. */
async function place(tab, name, nth = 0) {
  const text = tab.locator("g.text").nth(nth).getByText(name, { exact: true }).first();
  const box = await text.boundingBox();
  assert.ok(box, `${name} is shown`);
  return [box.x + box.width / 2, box.y + box.height / 2];
}

/** The text on frames, sorted. */
const texts = async (tab) => (await tab.locator("g.text text").allTextContents()).sort();
const clickOn = async (tab, name, nth) => tab.mouse.click(...(await place(tab, name, nth)));
const status = (tab) => tab.locator("[role=status]").first().textContent();
const tip = (tab) => tab.locator("foreignObject").last().locator("div div").last()
  .evaluate((box) => (box.hasAttribute("hidden") ? "" : box.innerText));
const hash = (tab) => tab.evaluate(() => decodeURIComponent(location.hash));
const focused = (tab) => tab.evaluate(() => document.activeElement.getAttribute("aria-label"));

test("opened alone, it uses the window's width and is laid out anew when that changes", async () => {
  const tab = await open("/graph.svg");
  const width = () => tab.locator("svg.frames").evaluate((e) => e.getBoundingClientRect().width);
  const framesWidth = async () => Number(await tab.locator("svg.frames").getAttribute("width"));
  assert.equal(await framesWidth(), 980);
  assert.ok((await width()) > 0);
  await tab.setViewportSize({ width: 300, height: 700 });
  await tab.waitForFunction(() => document.querySelector(".frames").getAttribute("width") === "280");
  const texts = await tab.locator("g.text text").allTextContents();
  assert.ok(texts.some((text) => text.includes("…")), "names are cut to the narrow window");
  const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(overflow <= 0, "nothing sticks out");
  await close(tab);
  const fixed = await open("/fixed.svg");
  assert.equal(await fixed.locator("svg").first().getAttribute("width"), "700");
  await close(fixed);
});

test("pointing at a frame shows its name, samples, and what they are a share of", async () => {
  const tab = await open("/graph.svg");
  await tab.mouse.move(...(await place(tab, "decode")));
  assert.equal(await tip(tab), "decode\n20 samples, 20.00% of all\nself 15, 15.00%");
  await clickOn(tab, "parse");
  await tab.mouse.move(...(await place(tab, "decode")));
  assert.equal(await tip(tab), "decode\n20 samples, 20.00% of all, 28.57% of parse\nself 15, 15.00%");
  await tab.mouse.move(500, 5);
  assert.equal(await tip(tab), "");
  await close(tab);
});

test("a click zooms, steps lead out, and Back and Forward work", async () => {
  for (const path of ["/graph.svg", fileOf(svg)]) {
    const tab = await open(path);
    await clickOn(tab, "parse");
    assert.deepEqual(await view(tab), { start: 24, width: 70 });
    assert.match(await hash(tab), /zoom=\d+/);
    await clickOn(tab, "decode");
    assert.deepEqual(await view(tab), { start: 24, width: 20 });
    assert.equal(await status(tab), "decode: 20.00% of all");
    await tab.goBack();
    assert.deepEqual(await view(tab), { start: 24, width: 70 });
    await tab.goBack();
    assert.deepEqual(await view(tab), { start: 0, width: 100 });
    await tab.goForward();
    assert.deepEqual(await view(tab), { start: 24, width: 70 });
    await clickOn(tab, "decode");
    await tab.getByRole("button", { name: "Out" }).click();
    assert.deepEqual(await view(tab), { start: 24, width: 70 });
    await tab.getByRole("button", { name: "Reset" }).click();
    assert.deepEqual(await view(tab), { start: 0, width: 100 });
    assert.equal(await hash(tab), "");
    await close(tab);
  }
});

/** A picture as a file, with its address. */
function fileOf(text) {
  const file = join(mkdtempSync(join(tmpdir(), "pyrograph-")), "graph.svg");
  writeFileSync(file, text);
  return `file://${file}`;
}

test("zoomed, callers take the whole width and keep their names in view", async () => {
  const tab = await open("/graph.svg");
  await clickOn(tab, "wait");
  for (const name of ["all", "app", "main", "wait"]) {
    const [x] = await place(tab, name);
    assert.ok(x > 10 && x < 100, `${name} stands at the left: ${x}`);
  }
  assert.equal(await tab.locator("g.text").getByText("decode").count(), 0);
  await close(tab);
});

test("an address restores zoom and search", async () => {
  const tab = await open("/graph.svg");
  await clickOn(tab, "parse");
  await tab.keyboard.press("/");
  await tab.keyboard.type("READ");
  await tab.getByRole("button", { name: "Ignore case" }).click();
  const address = tab.url();
  assert.match(address, /#zoom=\d+.*search=READ.*case=ignore/);
  await close(tab);
  const again = await open(address);
  assert.deepEqual(await view(again), { start: 24, width: 70 });
  assert.equal(await again.getByRole("searchbox").evaluate((input) => input.value), "READ");
  assert.match(await status(again), /^4 frames/);
  await close(again);
});

test("search counts what matched, nested frames once, of all and of the zoomed frame", async () => {
  const tab = await open("/graph.svg");
  await tab.keyboard.press("Control+f");
  await tab.keyboard.type("read");
  // read 50 with vfs_read and ext4_read in it, and decode's read 5.
  assert.equal(await status(tab), "4 frames, 55.00% of all");
  assert.equal(await tab.locator("path.hit").count(), 4);
  await clickOn(tab, "decode");
  assert.equal(await status(tab), "4 frames, 55.00% of all, 25.00% of the zoomed frame");
  await tab.getByRole("button", { name: "Reset" }).click();
  const box = tab.getByRole("searchbox");
  await box.fill("^DEC");
  assert.equal(await status(tab), "0 frames, 0% of all");
  await tab.getByRole("button", { name: "Ignore case" }).click();
  assert.equal(await status(tab), "1 frame, 20.00% of all");
  // What has no upper case letter finds both, unless the button says otherwise.
  await tab.getByRole("button", { name: "Ignore case" }).click();
  await box.fill("^dec");
  assert.equal(await status(tab), "1 frame, 20.00% of all");
  await box.fill("(?i)^DEC");
  assert.equal(await status(tab), "1 frame, 20.00% of all");
  await box.fill("(");
  assert.equal(await status(tab), "Not a regular expression: unterminated group");
  assert.equal(await box.getAttribute("aria-invalid"), "true");
  await box.fill("");
  assert.equal(await tab.locator("path.hit").count(), 0);
  await close(tab);
});

test("what filters left has percentages of the whole input", async () => {
  const tab = await open("/filtered.svg");
  await tab.mouse.move(...(await place(tab, "decode")));
  assert.equal(await tip(tab), "decode\n20 samples, 20.00% of the whole input\nself 15, 15.00%");
  await tab.keyboard.press("Control+f");
  await tab.keyboard.type("read");
  assert.equal(await status(tab), "4 frames, 55.00% of the whole input");
  await clickOn(tab, "decode");
  assert.match(await status(tab), /^4 frames, 55.00% of the whole input, 25.00% of the zoomed/);
  await close(tab);
});

test("everything can be done from the keyboard", async () => {
  const tab = await open("/graph.svg");
  await tab.keyboard.press("Tab");
  assert.match(await focused(tab), /^all, 100 samples, 100.00% of all$/);
  for (const [key, name] of [
    ["ArrowUp", "app"], ["ArrowUp", "main"], ["ArrowUp", "parse"], ["ArrowLeft", "Render::Text"],
    ["ArrowRight", "parse"], ["ArrowUp", "read"], ["ArrowDown", "parse"],
  ]) {
    await tab.keyboard.press(key);
    assert.match(await focused(tab), new RegExp(`^${name},`), key);
  }
  await tab.keyboard.press("Enter");
  assert.equal((await view(tab)).width, 70);
  await tab.keyboard.press("ArrowUp");
  await tab.keyboard.press("Enter");
  assert.equal((await view(tab)).width, 50);
  assert.match(await focused(tab), /50.00% of all, 100.00% of read, self 0, 0.00%$/);
  await tab.keyboard.press("Escape");
  assert.equal((await view(tab)).width, 70);
  await tab.keyboard.press("Backspace");
  assert.equal((await view(tab)).width, 100);
  await tab.keyboard.press("/");
  await tab.keyboard.type("read");
  await tab.keyboard.press("Enter");
  const first = await focused(tab);
  assert.match(first, /read/);
  await tab.keyboard.press("n");
  assert.notEqual(await focused(tab), first);
  await tab.keyboard.press("Shift+N");
  assert.equal(await focused(tab), first);
  await tab.keyboard.press("Enter");
  await tab.keyboard.press("Home");
  assert.equal((await view(tab)).width, 100);
  assert.match(await focused(tab), /^all,/);
  await close(tab);
});

test("a screen reader finds names, roles and levels", async () => {
  const tab = await open("/graph.svg");
  await tab.keyboard.press("Tab");
  await tab.keyboard.press("ArrowUp");
  const session = await tab.context().newCDPSession(tab);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const found = nodes
    .filter((node) => !node.ignored)
    .map((node) => `${node.role?.value}: ${node.name?.value}`);
  for (const wanted of [
    "toolbar: Flame graph",
    "searchbox: Search functions by regular expression",
    "button: Ignore case",
    "treeitem: app, 100 samples, 100.00% of all, self 0, 0.00%",
  ]) {
    assert.ok(found.includes(wanted), `${wanted} in\n${found.slice(0, 40).join("\n")}`);
  }
  assert.ok(found.some((text) => /^tree: Frames\./.test(text)));
  assert.ok(found.some((text) => /^figure: Parsing: 100 samples, 13 frames/.test(text)));
  await close(tab);
});

test("dark and light follow the reader", async () => {
  const colours = async (colorScheme) => {
    const tab = await open("/graph.svg", { colorScheme });
    const found = await tab.evaluate(() => ({
      background: getComputedStyle(document.querySelector(".bg")).fill,
      frame: getComputedStyle(document.querySelectorAll(".frames path")[1]).stroke,
      text: getComputedStyle(document.querySelector("g.text text")).fill,
    }));
    await close(tab);
    return found;
  };
  const light = await colours("light");
  const dark = await colours("dark");
  assert.equal(light.background, "rgb(255, 255, 255)");
  assert.equal(light.text, "rgb(0, 0, 0)");
  assert.equal(dark.background, "rgb(23, 23, 27)");
  assert.equal(dark.text, "rgb(255, 255, 255)");
  assert.notEqual(light.frame, dark.frame);
});

test("without JavaScript every frame, its details and its text are there", async () => {
  const tab = await open("/graph.svg", { javaScriptEnabled: false });
  assert.equal(await tab.locator(".frames path").count(), FRAMES);
  assert.equal(await tab.locator(".frames path > title").count(), FRAMES);
  const details = await tab.locator(".frames path > title").allTextContents();
  assert.ok(details.includes("decode\n20 samples, 20.00%\nself 15, 15.00%"));
  assert.ok((await tab.locator("g.text text").count()) >= 10);
  assert.equal(await tab.locator("foreignObject").count(), 0, "no dead controls");
  await close(tab);
});

/** How many pixels of an element's screenshot have a frame's colour: neither grey nor nearly so. */
async function colourful(tab, locator) {
  const shot = (await locator.screenshot()).toString("base64");
  return tab.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, image.width, image.height).data;
    let count = 0;
    for (let at = 0; at < pixels.length; at += 4) {
      const [r, g, b] = pixels.subarray(at, at + 3);
      if (Math.max(r, g, b) - Math.min(r, g, b) > 60) count++;
    }
    return count;
  }, shot);
}

test("in <img> it is the whole picture", async () => {
  const tab = await open("/img.html");
  const width = await tab.locator("#graph").evaluate((image) => image.naturalWidth);
  assert.equal(width, 1200);
  assert.ok((await colourful(tab, tab.locator("#graph"))) > 30_000);
  await close(tab);
});

test("in <object> it works as alone", async () => {
  const tab = await open("/object.html");
  const frame = tab.frames().find((found) => found.url().endsWith("/graph.svg"));
  const inside = await frame.locator("g.text").getByText("parse", { exact: true })
    .evaluate((text) => ({ x: text.getBoundingClientRect().x, y: text.getBoundingClientRect().y }));
  const outside = await tab.locator("#graph").boundingBox();
  await tab.mouse.click(outside.x + inside.x + 2, outside.y + inside.y + 5);
  assert.match(await frame.locator("svg.frames").getAttribute("viewBox"), /^24 0 70 /);
  assert.match(frame.url(), /#zoom=/);
  assert.equal(await hash(tab), "", "the page's own address stays");
  await close(tab);
});

test("several graphs on one page do not meet", async () => {
  const tab = await open("/inline.html#words");
  assert.equal(await tab.locator("svg.frames").count(), 3);
  await clickOn(tab, "parse", 0);
  await clickOn(tab, "compute", 1);
  assert.equal((await view(tab, 0)).width, 70);
  assert.deepEqual(await view(tab, 1), { start: 0, width: 7 });
  assert.equal((await view(tab, 2)).width, 100, "the same graph a second time");
  await clickOn(tab, "wait", 2);
  assert.equal((await view(tab, 0)).width, 70);
  assert.match(await hash(tab), /^#words/, "the page's own fragment stays");
  const address = tab.url();
  await tab.goBack();
  assert.equal((await view(tab, 2)).width, 100);
  assert.equal((await view(tab, 0)).width, 70);
  await tab.locator("#own").fill("");
  await tab.locator("#own").press("/");
  await tab.locator("#own").press("n");
  await tab.keyboard.press("Home");
  assert.equal(await tab.locator("#own").inputValue(), "/n", "keys outside are the page's");
  assert.equal((await view(tab, 0)).width, 70);
  await close(tab);
  const again = await open(address);
  assert.deepEqual(
    [await view(again, 0), await view(again, 1), await view(again, 2)].map(({ width }) => width),
    [70, 7, 6],
  );
  await close(again);
});

test("the page's style does not reach the controls", async () => {
  const tab = await open("/inline.html");
  const size = await tab.getByRole("searchbox").first()
    .evaluate((input) => getComputedStyle(input).fontSize);
  assert.equal(size, "12px");
  await close(tab);
});

test("editors that mangle, strip scripts, or strip styles too leave a whole picture", async () => {
  for (const path of ["/mangled.html", "/stripped.html", "/unstyled.html", "/embedded.html"]) {
    const tab = await open(path);
    assert.equal(await tab.locator(".frames path").count(), FRAMES, path);
    assert.equal(await tab.locator("#after").textContent(), "after", "the post goes on");
    assert.equal(await tab.locator("svg #after").count(), 0);
    assert.ok((await colourful(tab, tab.locator("svg").first())) > 30_000, path);
    await close(tab);
  }
  const tab = await open("/mangled.html");
  await clickOn(tab, "parse");
  assert.equal((await view(tab)).width, 70, "the script survives");
  await close(tab);
});

test("names from outside are text", async () => {
  const tab = await open("/graph.svg");
  const names = await tab.locator(".frames path > title").allTextContents();
  assert.ok(names.some((name) => name.startsWith("<script>alert(1)</script>\n")));
  assert.ok(names.some((name) => name.startsWith("shape<a]]>b\n")));
  assert.equal(await tab.locator("script").count(), 1);
  await close(tab);
});

test("an icicle's arrows follow the picture, and its details carry the name type", async () => {
  const tab = await open("/inverted.svg");
  await tab.keyboard.press("Tab");
  await tab.keyboard.press("ArrowDown");
  assert.match(await focused(tab), /^Function: app,/);
  await tab.keyboard.press("ArrowUp");
  assert.match(await focused(tab), /^Function: all,/);
  assert.equal(await tab.locator("g.text").getByText("parse", { exact: true }).count(), 1);
  await close(tab);
});

test("a differential graph's details say what was before", async () => {
  const tab = await open("/compare.svg");
  await tab.mouse.move(...(await place(tab, "b")));
  assert.equal(
    await tip(tab),
    "b\n20 samples, 80.00%; before 5 samples, 33.33%; self +60.00% of all",
  );
  await close(tab);
});

test("a comparison shows both sides: widths by key, button and address; what is gone has a box", async () => {
  const tab = await open("/diff.svg");
  assert.deepEqual(await texts(tab), ["all", "main", "parse", "render", "fast", "simd"].sort());
  await tab.mouse.move(...(await place(tab, "parse")));
  assert.match(await tip(tab), /^parse\nafter 5,500 samples, 48.67% of all\nbefore 4,000 samples, 36.36%\n\+1,500 samples, \+12.31 points; 95% between \+1\d\.\d\d and \+1\d\.\d\d points\nmore, beyond noise$/);
  // The box that stands in for what is gone.
  const box = await tab.locator(".absent").boundingBox();
  await tab.mouse.move(box.x + 3, box.y + box.height / 2);
  assert.match(await tip(tab), /^slow\nafter 0 samples, 0.00%.*\nbefore 1,000 samples, 9.09%[^]*gone, beyond noise$/);
  await tab.keyboard.press("b");
  assert.deepEqual(await texts(tab), ["all", "main", "parse", "render", "slow", "scalar"].sort());
  assert.match(await tab.locator(".notice").textContent(), /^widths: before; /);
  assert.equal(await hash(tab), "#view=before");
  await tab.mouse.move(...(await place(tab, "parse")));
  assert.match(await tip(tab), /^parse\nbefore 4,000 samples, 36.36% of all\nafter 5,500 samples/);
  // Zoomed to what is gone, the side after shows its caller.
  await clickOn(tab, "slow");
  assert.match(await status(tab), /^slow: 9.09% of all/);
  await tab.getByRole("button", { name: "Before" }).click();
  assert.match(await status(tab), /^main: /);
  assert.ok(await place(tab, "fast"));
  await tab.keyboard.press("b");
  await tab.keyboard.press("b");
  await tab.locator("input").fill("simd");
  assert.match(await status(tab), /^1 frame, 7.08% of all/);
  await close(tab);

  const linked = await open("/diff.svg#view=before");
  assert.ok(await place(linked, "slow"));
  await close(linked);
});

test("in a narrow window the line below a comparison is broken, and names keep off the boxes", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const tab = await open("/diff.svg", { viewport: { width: 300, height: 500 }, colorScheme });
    const line = await tab.locator(".notice").evaluate((notice) => {
      const box = notice.getBBox();
      return { left: box.x, right: box.x + box.width, lines: notice.children.length,
        below: document.documentElement.viewBox.baseVal.height - box.y - box.height };
    });
    assert.ok(line.lines > 1 && line.left >= 0 && line.right <= 300 && line.below > 0, JSON.stringify(line));
    const free = await tab.evaluate(() => {
      const boxes = [...document.querySelector(".absent").getAttribute("d").matchAll(/M([\d.]+) ([\d.]+)h6/g)];
      const names = [...document.querySelectorAll(".text text")].map((text) => text.getBBox());
      return boxes.every(([, x, y]) => names.every((name) =>
        name.x >= Number(x) + 6 || name.x + name.width <= Number(x)
          || name.y > Number(y) + 18 || name.y + name.height < Number(y)));
    });
    assert.ok(free);
    await close(tab);
  }
});

test("a comparison with nothing on one side opens, and turns to it", async () => {
  const tab = await open("/one-sided.svg");
  await tab.keyboard.press("b");
  await tab.keyboard.press("b");
  assert.deepEqual(await texts(tab), ["all", "main"]);
  await close(tab);
});
