// How a flame graph is read: where it opens, what a zoom leaves, names, search, print. Run by ./run.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { draw, drawDiff, launch, serve } from "./browser.mjs";

// One stack of 90 rows, beside a low one.
const DEEP = Array.from({ length: 90 }, (_, row) => `deep_${row}`).join(";");
const TALL = `main;${DEEP} 30\nmain;flat;leaf_[k] 10\nmain;other 60\n`;
const FLAT = "main;parse;read_[k] 20\nmain;parse;decode 5\nmain;decode 40\nmain;wait_[k];decode 30\n";

/** What is drawn of an input without samples, which is an error. */
function nothing() {
  try {
    draw("main 0\n");
  } catch (error) {
    return error.stdout;
  }
  throw new Error("there was something to draw");
}

let browser;
let server;
before(async () => {
  browser = await launch();
  const tall = draw(TALL);
  server = await serve({
    "/tall.svg": tall,
    "/inverted.svg": draw(TALL, "--inverted"),
    "/flat.svg": draw(FLAT),
    "/narrow.svg": draw("wide 5\nwide;other 9000\nthin 1\nthin;way;leaf 3\n"),
    "/dark.svg": draw(FLAT, "--theme", "dark"),
    "/nothing.svg": nothing(),
    "/light.svg": draw(FLAT, "--theme", "light"),
    "/long.svg": draw(FLAT, "--subtitle", "a word ".repeat(60).trim(), "--title", "title ".repeat(40)),
    "/inline.html": `<!doctype html><meta charset="utf-8"><p>post</p>${tall}<p id="end">end</p>`,
    "/diff.svg": drawDiff("main;a;b;c;d 500\nmain;e 500\n", "main;a 500\nmain;e 900\n"),
  });
});
after(async () => {
  await browser?.close();
  server?.close();
});

async function open(path, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1000, height: 600 }, permissions: ["clipboard-read", "clipboard-write"], ...options,
  });
  context.setDefaultTimeout(120_000);
  const tab = await context.newPage();
  tab.said = [];
  tab.on("console", (message) => tab.said.push(message.text()));
  tab.on("pageerror", (error) => tab.said.push(error.message));
  await tab.goto(server.address + path);
  return tab;
}
async function close(tab) {
  assert.deepEqual(tab.said.filter((text) => !text.includes("favicon")), [], "the console is silent");
  await tab.context().close();
}
const label = (tab, name) => tab.locator("g.text").getByText(name, { exact: true }).first();
/** Where a name is in the window. */
const place = (tab, name) => label(tab, name).evaluate((text) => {
  const box = text.getBoundingClientRect();
  return { x: box.left + box.width / 2, y: box.top + box.height / 2, inside: box.bottom <= innerHeight && box.top >= 0 };
});
const clickOn = async (tab, name) => {
  const at = await place(tab, name);
  await tab.mouse.click(at.x, at.y);
};
const status = (tab) => tab.locator("[role=status]").first().textContent();
const focused = (tab) => tab.evaluate(() => document.activeElement.getAttribute("aria-label"));
const stroke = (tab, name) => tab.evaluate((name) => {
  const paths = [...document.querySelectorAll(".frames path")];
  const named = paths.find((path) => path.querySelector("title")?.textContent.startsWith(`${name}\n`));
  return getComputedStyle(named).stroke.match(/\d+/g).map(Number);
}, name);

test("a tall graph opens at its root, and not on blank paper", async () => {
  const tab = await open("/tall.svg");
  assert.ok((await tab.evaluate(() => window.scrollY)) > 600);
  assert.ok((await place(tab, "all")).inside);
  await close(tab);
  const inverted = await open("/inverted.svg");
  assert.equal(await inverted.evaluate(() => window.scrollY), 0);
  assert.ok((await place(inverted, "all")).inside);
  await close(inverted);
  const inline = await open("/inline.html");
  assert.equal(await inline.evaluate(() => window.scrollY), 0, "a page begins where it begins");
  await close(inline);
});

test("a tall graph with a zoom in its address shows the zoomed frame", async () => {
  const tab = await open("/tall.svg");
  const zoom = await tab.evaluate(() => {
    const paths = [...document.querySelectorAll(".frames path")];
    return paths.findIndex((path) => path.querySelector("title")?.textContent.startsWith("deep_80\n"));
  });
  await close(tab);
  const again = await open(`/tall.svg#zoom=${zoom}`);
  assert.ok((await place(again, "deep_80")).inside);
  await close(again);
});

test("a zoom drops the rows that are empty in it, and the root stays where it is", async () => {
  for (const path of ["/tall.svg", "/inline.html"]) {
    const tab = await open(path);
    await label(tab, "all").scrollIntoViewIfNeeded();
    const height = async () => Number(await tab.locator("svg.frames").getAttribute("height"));
    assert.equal(await height(), 92 * 18);
    const before = await place(tab, "all");
    await clickOn(tab, "flat");
    assert.equal(await height(), 4 * 18);
    const labels = await tab.locator("g.text text").allTextContents();
    assert.deepEqual(labels, ["all", "main", "flat", "leaf"]);
    const page = await tab.evaluate(() => document.documentElement.getBoundingClientRect().height);
    assert.ok(page < 300, `the picture is as high as what it shows: ${page}`);
    await tab.mouse.move((await place(tab, "leaf")).x, (await place(tab, "leaf")).y);
    await tab.keyboard.press("Escape");
    assert.equal(await height(), 92 * 18);
    const now = await place(tab, "all");
    assert.ok(Math.abs(now.y - before.y) < 2 || now.inside, `${before.y} ${now.y}`);
    await close(tab);
  }
});

test("a comparison keeps the rows of its dashed boxes", async () => {
  const tab = await open("/diff.svg");
  const boxes = await tab.locator(".absent").getAttribute("d");
  assert.match(boxes, /^M[\d.]+ 0\.5h6v16h-6z$/, "one box, in the highest row that is left");
  assert.equal(await tab.locator("svg.frames").getAttribute("height"), String(4 * 18));
  await close(tab);
});

test("c copies the name, C the stack", async () => {
  const tab = await open("/flat.svg");
  const at = await place(tab, "read");
  await tab.mouse.move(at.x, at.y);
  const clipboard = () => tab.evaluate(() => navigator.clipboard.readText());
  await tab.keyboard.press("c");
  await tab.waitForFunction(() => document.title !== undefined);
  assert.equal(await clipboard(), "read");
  assert.equal(await status(tab), "Copied the name: read");
  await tab.keyboard.press("Shift+C");
  assert.equal(await clipboard(), "main;parse;read");
  await close(tab);
});

test("details show self beside total, also of frames that are narrow in the file", async () => {
  const tab = await open("/narrow.svg");
  for (const [name, self] of [["wide", "self 5,"], ["thin", "self 1,"], ["leaf", "self: all of it"], ["way", "self 0"]]) {
    const i = await tab.evaluate((name) => {
      const paths = [...document.querySelectorAll(".frames path")];
      return paths.findIndex((path) => path.querySelector("title")?.textContent.startsWith(`${name}\n`));
    }, name);
    await tab.evaluate((i) => {
      history.replaceState(null, "", `#zoom=${i}`);
      window.dispatchEvent(new PopStateEvent("popstate"));
    }, i);
    const at = await place(tab, name);
    await tab.mouse.move(at.x, at.y);
    const said = await tab.locator("foreignObject").last().locator("div div").last().innerText();
    assert.equal(said.split("\n")[2].startsWith(self), true, said);
  }
  await close(tab);
});

test("names can be selected, and that does not zoom", async () => {
  const tab = await open("/flat.svg");
  const box = await label(tab, "decode").boundingBox();
  await tab.mouse.move(box.x + 1, box.y + box.height / 2);
  await tab.mouse.down();
  await tab.mouse.move(box.x + box.width + 3, box.y + box.height / 2, { steps: 5 });
  await tab.mouse.up();
  assert.equal(await tab.evaluate(() => getSelection().toString()), "decode");
  assert.equal(await tab.evaluate(() => location.hash), "");
  await tab.mouse.click(box.x + 1, box.y + box.height / 2);
  assert.match(await tab.evaluate(() => location.hash), /zoom=/);
  await close(tab);
});

test("a search takes the chroma of what it does not find, and keeps the hue", async () => {
  const chroma = ([r, g, b]) => Math.max(r, g, b) - Math.min(r, g, b);
  for (const colorScheme of ["light", "dark"]) {
    const tab = await open("/flat.svg", { colorScheme });
    const before = { user: await stroke(tab, "main"), kernel: await stroke(tab, "wait") };
    await tab.keyboard.press("/");
    await tab.keyboard.type("decode");
    const now = { user: await stroke(tab, "main"), kernel: await stroke(tab, "wait") };
    for (const role of ["user", "kernel"]) {
      assert.ok(chroma(now[role]) < 0.5 * chroma(before[role]), JSON.stringify([before, now]));
      assert.ok(chroma(now[role]) > 3, JSON.stringify(now));
    }
    assert.ok(now.user[0] > now.user[2] && now.kernel[2] > now.kernel[0], JSON.stringify(now));
    assert.ok(chroma(await stroke(tab, "decode")) > 100);
    await close(tab);
  }
});

test("an invalid expression keeps its message through a zoom", async () => {
  const tab = await open("/flat.svg");
  await tab.keyboard.press("/");
  await tab.keyboard.type("(");
  assert.equal(await status(tab), "Not a regular expression: unterminated group");
  await clickOn(tab, "parse");
  assert.equal(await status(tab), "Not a regular expression: unterminated group");
  await close(tab);
});

test("Enter in the search goes to the widest hit, then to the next", async () => {
  const tab = await open("/flat.svg");
  await tab.keyboard.press("/");
  await tab.keyboard.type("decode");
  for (const share of ["40", "30", "5", "40"]) {
    await tab.keyboard.press("Enter");
    assert.match(await focused(tab), new RegExp(`^decode, ${share} samples`));
    await tab.keyboard.press("/");
  }
  await close(tab);
});

test("what a search found is never cut", async () => {
  for (const width of [340, 700, 1000]) {
    const tab = await open("/long.svg", { viewport: { width, height: 600 } });
    await clickOn(tab, "parse");
    await tab.keyboard.press("/");
    await tab.keyboard.type("e|r|d|some_longer_expression|another_one");
    const cut = await tab.locator("[role=status]").first().evaluate((status) => {
      const box = status.getBoundingClientRect();
      const frames = document.querySelector("svg.frames").getBoundingClientRect();
      const input = status.getRootNode().host.ownerDocument;
      return { left: box.left, right: box.right, bottom: box.bottom, frames: frames.top, input: input !== null };
    });
    assert.ok(cut.left >= 0 && cut.right <= width && cut.bottom <= cut.frames + 1, JSON.stringify({ width, ...cut }));
    assert.match(await status(tab), /of the zoomed frame$/);
    const subtitle = await tab.locator(".sub").textContent();
    assert.equal(subtitle, "a word ".repeat(60).trim(), "the subtitle is broken, and not cut");
    await close(tab);
  }
});

test("a theme holds for every reader, also for the controls", async () => {
  for (const [path, expect] of [["/dark.svg", "rgb(23, 23, 27)"], ["/light.svg", "rgb(255, 255, 255)"]]) {
    for (const colorScheme of ["light", "dark"]) {
      const tab = await open(path, { colorScheme });
      const fill = await tab.locator("rect.bg").evaluate((rect) => getComputedStyle(rect).fill);
      assert.equal(fill, expect);
      const input = await tab.getByRole("searchbox").evaluate((input) => getComputedStyle(input).backgroundColor);
      assert.equal(input, path === "/dark.svg" ? "rgb(38, 38, 43)" : "rgb(255, 255, 255)");
      const text = await label(tab, "main").evaluate((text) => getComputedStyle(text).fill);
      assert.equal(text, path === "/dark.svg" ? "rgb(255, 255, 255)" : "rgb(0, 0, 0)");
      await close(tab);
    }
  }
});

test("in print there is no search box, and the picture is on one light page", async () => {
  const tab = await open("/tall.svg", { colorScheme: "dark" });
  const pdf = (await tab.pdf({ format: "A4" })).toString("latin1");
  assert.equal(pdf.match(/\/Type \/Page\b/g).length, 1);
  await tab.emulateMedia({ media: "print" });
  assert.equal(await tab.locator("foreignObject").first().evaluate((e) => getComputedStyle(e).display), "none");
  const fill = await tab.locator("rect.bg").evaluate((rect) => getComputedStyle(rect).fill);
  assert.equal(fill, "rgb(255, 255, 255)");
  await close(tab);
});

test("a screen reader hears a frame's name once: the text on it is hidden from it", async () => {
  const tab = await open("/flat.svg");
  const session = await tab.context().newCDPSession(tab);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const texts = nodes.filter((node) => !node.ignored && node.role?.value === "StaticText")
    .map((node) => node.name?.value);
  assert.ok(!texts.includes("parse") && !texts.includes("decode"), texts.join(", "));
  await close(tab);
});

test("a click between two rows counts as one on the frame above it", async () => {
  const tab = await open("/flat.svg");
  const box = await tab.locator("svg.frames").boundingBox();
  // Rows are 18 pixels high, of which the frame takes 17.
  const at = { x: box.x + box.width * 0.5, y: box.y + 2 * 18 - 0.5 };
  await tab.mouse.move(at.x, at.y);
  const under = await tab.evaluate(({ x, y }) => document.elementFromPoint(x, y).localName, at);
  assert.equal(under, "rect", "there is no frame at this place");
  await tab.mouse.click(at.x, at.y);
  assert.match(await status(tab), /^parse: /);
  await tab.mouse.click(box.x + 10, box.y - 4);
  assert.match(await status(tab), /^parse: /, "above the frames nothing is clicked");
  await close(tab);
});

test("on a telephone the reason for an empty picture can be read", async () => {
  const tab = await open("/nothing.svg", { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true });
  assert.equal(await tab.evaluate(() => innerWidth), 360);
  assert.ok((await tab.locator(".notice").boundingBox()).height >= 8);
  await close(tab);
});

test("on a telephone a graph fits the window, and a tap shows details", async () => {
  const tab = await open("/flat.svg", { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true });
  assert.equal(await tab.evaluate(() => innerWidth), 360);
  assert.ok((await tab.getByRole("searchbox").boundingBox()).height >= 40);
  const at = await place(tab, "parse");
  await tab.touchscreen.tap(at.x, at.y);
  const tip = () => tab.locator("foreignObject").last().locator("div div").last().innerText();
  assert.match(await tip(), /^parse\n25 samples, 26\.32% of all/);
  const frames = await tab.locator("svg.frames").boundingBox();
  const button = await tab.getByRole("button", { name: "Reset" }).boundingBox();
  assert.ok(button.height >= 40 && button.y + button.height <= frames.y, JSON.stringify([button, frames]));
  await close(tab);
});
