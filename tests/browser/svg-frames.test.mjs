// Every frame of flame graphs as SVG, pointed at and clicked: details, colour, zoom, what a search found, the address opened anew, Back
// and Forward. Numbers are compared with sums over the folded lines that the pictures are drawn from; nothing is taken from the
// picture's script. Run by ./run; PYROGRAPH_NIGHTLY=1 runs more of it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { draw, launch, serve, travel } from "./browser.mjs";
import { foldedText, hueOf, isShare, nearest, number, random, samplesOf, shown } from "./generated.mjs";

const NIGHTLY = Boolean(process.env.PYROGRAPH_NIGHTLY);
const PICTURES = Number(process.env.PICTURES ?? (NIGHTLY ? 60 : 2));
/** Share of the frames that are clicked. */
const CLICKED = NIGHTLY ? 1 : 0.3;
const PATTERNS = ["main", "json", "JSON", "(?i)Json", "^a", "[x-z]", "read$", "util", "allocator", "app[.]js", "none of them"];
const [WIDTH, ROW, MARGIN] = [1400, 18, 10];

/** The tree of names: frames with their places, from the root and from the left. */
function treeOf(samples) {
  const make = (name, kind, parent) => ({ name, kind, parent, total: 0, own: 0, children: new Map() });
  const root = make("all", null, null);
  for (const { frames, value } of samples) {
    let node = root;
    node.total += value;
    for (const { name, kind } of frames) {
      if (!node.children.has(name)) { node.children.set(name, make(name, kind, node)); }
      node = node.children.get(name);
      node.total += value;
    }
    node.own += value;
  }
  const nodes = [];
  const lay = (node, start, depth) => {
    Object.assign(node, { start, depth });
    nodes.push(node);
    let at = start + node.own;
    for (const child of [...node.children.values()].sort((a, b) => a.name < b.name ? -1 : 1)) {
      lay(child, at, depth + 1);
      at += child.total;
    }
  };
  lay(root, 0, 0);
  return nodes;
}
const above = (node) => node ? [...above(node.parent), node] : [];
const isWithin = (node, zoomed) => node.start >= zoomed.start && node.start + node.total <= zoomed.start + zoomed.total && node.depth >= zoomed.depth;

/** Runs in the picture: the details of what is pointed at at each place, and its colour. Places: the share of the width, the row. */
function pointAll(places) {
  const picture = document.querySelector("svg.frames");
  const matrix = document.documentElement.getScreenCTM();
  const shadows = [...document.querySelectorAll("*")].map((of) => of.shadowRoot).filter(Boolean);
  const tip = shadows.map((of) => of.querySelector("div[aria-hidden=true]")).find(Boolean);
  return places.map(([share, row]) => {
    const y = Number(picture.getAttribute("y")) + row * 18 + 9;
    const { x: clientX, y: clientY } = new DOMPoint(10 + share * Number(picture.getAttribute("width")), y).matrixTransform(matrix);
    const there = document.elementsFromPoint(clientX, clientY);
    there[0].dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, pointerType: "mouse", bubbles: true }));
    const path = there.find((of) => of.localName === "path" && picture.contains(of));
    return { lines: tip.hidden || tip.hasAttribute("hidden") ? [] : [...tip.children].map((of) => of.textContent), clientX, clientY,
      colour: path ? getComputedStyle(path).stroke.match(/\d+/g).slice(0, 3).map(Number) : null };
  });
}
/** Runs in the picture: all that it says and shows. */
function look() {
  const picture = document.querySelector("svg.frames");
  const status = [...document.querySelectorAll("*")].map((of) => of.shadowRoot?.querySelector("[role=status]")).find(Boolean);
  return { hash: location.hash, view: picture.getAttribute("viewBox"), status: status.textContent, hits: picture.querySelectorAll("path.hit").length,
    up: picture.querySelectorAll("path.up").length, texts: [...document.querySelectorAll("g.text text")].map((of) => of.textContent) };
}

function checkTip(node, { lines, colour }, zoomed, pattern, where) {
  const [root] = above(node);
  assert.equal(lines[0], shown(node.name), `${where}: the name`);
  const [, value, share, within, of] = lines[1].match(/^([\d,]+) samples?, ([\d.]+)% of all(?:, ([\d.]+)% of (.*))?$/) ?? assert.fail(`${where}: ${lines}`);
  assert.equal(number(value), node.total, where);
  isShare(share, node.total, root.total, where);
  const name = shown(zoomed.name).length > 40 ? "the zoomed frame" : shown(zoomed.name);
  assert.equal(of, zoomed !== root && isWithin(node, zoomed) ? name : undefined, `${where}: the zoomed frame, ${lines}`);
  if (of !== undefined) { isShare(within, node.total, zoomed.total, where); }
  if (node === root) { assert.equal(lines.length, 2, where); return; }
  // A large picture leaves to the script what follows from it.
  const [, own, part] = lines[2].match(/^self ([\d,]+)(?:, ([\d.]+)%)?$/) ?? lines[2].match(/^self: (all) of it$/) ?? assert.fail(`${where}: ${lines}`);
  assert.equal(own === "all" ? node.total : number(own), node.own, where);
  if (part !== undefined) { isShare(part, node.own, root.total, where); }
  // What a search found has a colour of its own.
  if (!pattern) { assert.equal(nearest(hueOf(colour).hue), node.kind, `${where}: painted ${colour}`); }
}
function checkStatus({ status, hits }, nodes, zoomed, pattern, where) {
  const [root] = nodes;
  if (!pattern) {
    if (zoomed === root) { assert.equal(status, "", where); return; }
    const [, name, share] = status.match(/^(.*): ([\d.]+)% of all$/) ?? assert.fail(`${where}: ${status}`);
    assert.equal(name, shown(zoomed.name), where);
    isShare(share, zoomed.total, root.total, where);
    return;
  }
  const ignores = pattern.startsWith("(?i)") || !/[A-Z]/.test(pattern);
  const wanted = new RegExp(pattern.replace("(?i)", ""), ignores ? "i" : "");
  const isMatch = (node) => node !== root && wanted.test(shown(node.name));
  const found = nodes.filter(isMatch);
  const outer = found.filter((node) => !above(node.parent).some(isMatch));
  const sum = (of) => of.reduce((total, node) => total + node.total, 0);
  const [, count, share, within] = status.match(/^([\d,]+) frames?, ([\d.]+)% of all(?:, ([\d.]+)% of the zoomed frame)?$/) ?? assert.fail(`${where}: ${status}`);
  assert.deepEqual([number(count), hits], [found.length, found.length], where);
  isShare(share, sum(outer), root.total, where);
  assert.equal(within === undefined, zoomed === root, where);
  if (zoomed !== root) { isShare(within, above(zoomed).some(isMatch) ? zoomed.total : sum(outer.filter((node) => isWithin(node, zoomed))), zoomed.total, where); }
}

let browser;
let server;
const pictures = Array.from({ length: PICTURES }, (_, number) => ({ nodes: treeOf(samplesOf(random(number + 1), false)), inverted: number % 2 === 1 }));
before(async () => {
  browser = await launch();
  server = await serve(Object.fromEntries(pictures.map(({ inverted }, number) => {
    const folded = foldedText(samplesOf(random(number + 1), false));
    return [`/${number}.svg`, draw(folded, "--minwidth", "0", ...(inverted ? ["--inverted"] : []))];
  })));
});
after(async () => {
  await browser?.close();
  server?.close();
});

test("every frame of a picture is what is said of it", async () => {
  const open = async () => {
    const page = await browser.newPage({ viewport: { width: WIDTH, height: 1000 } });
    page.setDefaultTimeout(120_000);
    page.on("pageerror", (error) => errors.push(error.message));
    return page;
  };
  const errors = [];
  const [tab, second] = [await open(), await open()];
  let pointed = 0;
  let clicked = 0;
  for (const [number, { nodes, inverted }] of pictures.entries()) {
    const next = random(number + 77);
    const [root] = nodes;
    const pattern = next() < 0.6 ? PATTERNS[Math.floor(next() * PATTERNS.length)] : "";
    const url = `${server.address}/${number}.svg`;
    const address = pattern ? `#search=${encodeURIComponent(pattern)}` : "";
    await tab.goto("about:blank");
    await tab.goto(url + address);
    let zoomed = root;
    /** Rows of the zoom, and what of it is drawn, with its place. */
    const drawn = () => {
      const seen = nodes.filter((node) => isWithin(node, zoomed) || above(zoomed).includes(node));
      const rows = 1 + Math.max(...seen.map((of) => of.depth));
      const scale = (WIDTH - 2 * MARGIN) / zoomed.total;
      const wide = seen.filter((node) => Math.min(node.total, zoomed.total) * scale >= 1);
      const middle = (node) => (Math.max(node.start, zoomed.start) + Math.min(node.start + node.total, zoomed.start + zoomed.total)) / 2;
      return { rows, frames: wide.map((node) => ({ node, place: [(middle(node) - zoomed.start) / zoomed.total, inverted ? node.depth : rows - 1 - node.depth] })) };
    };
    const where = `picture ${number}, ${pattern}`;
    const point = async () => {
      const { frames } = drawn();
      const said = await tab.evaluate(pointAll, frames.map(({ place }) => place));
      frames.forEach(({ node }, i) => checkTip(node, said[i], zoomed, pattern, `${where}, zoom ${shown(zoomed.name)}, ${above(node).map((of) => of.name).join(";")}`));
      pointed += frames.length;
      return frames.map(({ node }, i) => ({ node, at: [said[i].clientX, said[i].clientY] }));
    };
    const plain = await tab.evaluate(look);
    checkStatus(plain, nodes, root, pattern, where);
    const frames = await point();
    for (const { node, at } of frames) {
      // A mouse has whole pixels.
      const isWide = node.total / root.total * (WIDTH - 2 * MARGIN) >= 3;
      if (node === root || !isWide || next() > CLICKED) { continue; }
      const there = `${where}, clicked ${above(node).map((of) => of.name).join(";")}`;
      await tab.mouse.click(...at);
      zoomed = node;
      const seen = await tab.evaluate(look);
      assert.equal(seen.view, `${node.start} 0 ${node.total} ${drawn().rows * ROW}`, there);
      assert.equal(seen.up, node.depth, there);
      checkStatus(seen, nodes, zoomed, pattern, there);
      if (next() < 0.3) { await point(); }
      await second.goto(`${url}?${++clicked}${seen.hash}`);
      assert.deepEqual(await second.evaluate(look), seen, `${there}: opened anew`);
      await tab.evaluate(travel, -1);
      assert.deepEqual(await tab.evaluate(look), plain, `${there}: Back`);
      await tab.evaluate(travel, 1);
      assert.deepEqual(await tab.evaluate(look), seen, `${there}: Forward`);
      await tab.evaluate(travel, -1);
      zoomed = root;
    }
  }
  assert.deepEqual(errors, []);
  assert.ok(pointed > 100 * PICTURES, `${pointed} frames`);
  console.log(`${pointed} frames pointed at and ${clicked} clicked in ${PICTURES} pictures`);
});
