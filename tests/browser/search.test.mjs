// Results of the search in generated graphs, against brute force over their folded lines.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { draw, launch, serve } from "./browser.mjs";

const GRAPHS = 5;
const PATTERNS = ["a", "b|c", "^d$", "ee", "x|y", "nothing"];
const NAMES = ["a", "b", "c", "d", "ee", "x", "y"];

/** Numbers from 0 up to a limit, the same ones in every run. */
function numbers(seed) {
  let state = seed;
  return (below) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return Math.floor((state / 2147483648) * below);
  };
}

/** Stacks of up to six frames: `{ names, count }`. */
function stacks(seed) {
  const number = numbers(seed);
  return Array.from({ length: 3 + number(25) }, () => ({
    names: Array.from({ length: 1 + number(6) }, () => NAMES[number(NAMES.length)]),
    count: 1 + number(9),
  }));
}

const folded = (lines) => lines.map(({ names, count }) => `${names.join(";")} ${count}\n`).join("");
const sum = (lines) => lines.reduce((total, { count }) => total + count, 0);

/** As the picture writes it. */
function percent(part, whole) {
  if (part === 0) return "0%";
  const value = (100 * part) / whole;
  return value.toFixed(value >= 0.01 ? 2 : 4) + "%";
}

let browser;
let server;
const graphs = Array.from({ length: GRAPHS }, (_, number) => stacks(7 + 31 * number));

before(async () => {
  browser = await launch();
  const pages = {};
  graphs.forEach((lines, number) => {
    pages[`/${number}.svg`] = draw(folded(lines), "--minwidth", "0");
    pages[`/narrow-${number}.svg`] = draw(folded(lines), "--minwidth", "40");
  });
  server = await serve(pages);
});

after(async () => {
  await browser?.close();
  server?.close();
});

/** What the picture says for each frame zoomed to and each pattern, with the names up to the frame. */
async function searches(path) {
  const tab = await browser.newPage();
  tab.setDefaultTimeout(120_000);
  await tab.goto(server.address + path);
  const said = await tab.evaluate((patterns) => {
    const frames = [];
    [...document.querySelector("svg.frames").children].forEach((row, depth) => {
      for (const path of row.querySelectorAll("path")) {
        const [start, width] = path.getAttribute("d").slice(1).split(" 0h").map(Number);
        // The frame that has the keyboard has given its title away.
        const name = (path.querySelector("title")?.textContent ?? "all").split("\n")[0];
        frames.push({ depth, start, end: start + width, name });
      }
    });
    const names = (frame) => frames
      .filter((other) => other.depth > 0 && other.depth <= frame.depth)
      .filter((other) => other.start <= frame.start && other.end >= frame.end)
      .map((other) => other.name);
    const all = frames.map(names);
    // In a shadow tree.
    const status = [...document.querySelectorAll("*")]
      .map((element) => element.shadowRoot?.querySelector("[role=status]"))
      .find((found) => found);
    return frames.flatMap((_, zoom) => patterns.map((pattern) => {
      history.replaceState(null, "", `#zoom=${zoom}&search=${encodeURIComponent(pattern)}`);
      window.dispatchEvent(new PopStateEvent("popstate"));
      return { names: all[zoom], pattern, text: status.textContent };
    }));
  }, PATTERNS);
  await tab.close();
  return said;
}

const begins = (line, names) => names.every((name, depth) => line.names[depth] === name);
const matches = (pattern) => (line) => line.names.some((name) => new RegExp(pattern).test(name));

test("the share found is that of the stacks with a match, wherever the picture is zoomed", async () => {
  let count = 0;
  for (const [number, lines] of graphs.entries()) {
    for (const { names, pattern, text } of await searches(`/${number}.svg`)) {
      const found = lines.filter(matches(pattern));
      let expect = `, ${percent(sum(found), sum(lines))} of all`;
      if (names.length > 0) {
        const within = (of) => sum(of.filter((line) => begins(line, names)));
        expect += `, ${percent(within(found), within(lines))} of the zoomed frame`;
      }
      const share = text.slice(text.indexOf(","));
      assert.equal(share, expect, `graph ${number}, zoomed to ${names.join(";")}, ${pattern}`);
      count += 1;
    }
  }
  assert.ok(count > 400, `${count} searches`);
});

test("frames that are not drawn are not searched, and that is said", async () => {
  let count = 0;
  for (const [number, lines] of graphs.entries()) {
    const whole = sum(lines);
    for (const { names, pattern, text } of await searches(`/narrow-${number}.svg`)) {
      const missing = text.match(/; (\d+) narrow frames? not searched$/);
      if (!missing) continue;
      const found = lines.filter(matches(pattern));
      const within = (of) => sum(of.filter((line) => begins(line, names)));
      const where = `graph ${number}, zoomed to ${names.join(";")}, ${pattern}: ${text}`;
      const check = (said, share) => {
        const [, least, value] = said.match(/^(at least )?([\d.]+)%/);
        assert.ok(Number(value) <= 100 * share + 0.005, where);
        if (!least && value !== "0") assert.ok(Math.abs(Number(value) - 100 * share) <= 0.005, where);
      };
      const parts = text.split("; ")[0].split(", ");
      check(parts[1], sum(found) / whole);
      if (names.length > 0) check(parts[2], within(found) / within(lines));
      count += 1;
    }
  }
  assert.ok(count > 80, `${count} searches`);
});
