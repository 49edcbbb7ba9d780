// The page of `pyrograph view` in Firefox, which Playwright drives only in a build of its own. Run by ./run.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";
import { BINARY } from "./browser.mjs";

const FIREFOX = process.env.FIREFOX ?? "/usr/bin/firefox-esr";
const skip = !existsSync(FIREFOX) && "skipped: the viewer in Firefox needs firefox-esr";
if (skip) { console.log(skip); }

test("zoom, search, range, Back and Forward, in Firefox", { skip }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "pyrograph-firefox-"));
  const browser = await puppeteer.launch({ browser: "firefox", executablePath: FIREFOX, headless: true });
  try {
    const [input, page] = [join(folder, "in.txt"), join(folder, "out.html")];
    const samples = Array.from({ length: 40 }, (_, i) => `app 7/7 [000] ${(5 + i / 10).toFixed(6)}: 1000000 cpu-clock:\n` +
      `\t10 ${i < 20 ? "parse" : "eval"} (/bin/app)\n\t20 main (/bin/app)\n\n`);
    writeFileSync(input, samples.join(""));
    execFileSync(BINARY, ["view", input, "-o", page], { stdio: "ignore" });
    const tab = await browser.newPage();
    const said = [];
    tab.on("pageerror", (error) => said.push(error.message));
    await tab.setViewport({ width: 1200, height: 800 });
    await tab.goto(pathToFileURL(page).href);
    await tab.waitForSelector("#path button");
    const text = (id) => tab.$eval(`#${id}`, (of) => of.textContent);
    const until = (check, ...args) => tab.waitForFunction(check, { timeout: 20_000 }, ...args);
    await tab.focus("#keys");
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "Enter"]) { await tab.keyboard.press(key); }
    await until(() => /app › main › (eval|parse)/.test(document.getElementById("path").textContent));
    await tab.goBack();
    await until(() => !location.hash.includes("zoom"));
    await tab.goForward();
    await until(() => location.hash.includes("zoom"));
    await tab.keyboard.press("Escape");
    await tab.type("#search", "^eval$");
    await until(() => document.getElementById("found").textContent.startsWith("1: 50.00% of all"));
    const box = await (await tab.$("#timeline")).boundingBox();
    await tab.mouse.move(box.x + 2, box.y + 8);
    await tab.mouse.down();
    await tab.mouse.move(box.x + box.width * 0.2, box.y + 8);
    await tab.mouse.move(box.x + box.width * 0.4, box.y + 8);
    await tab.mouse.up();
    await until(() => document.getElementById("found").textContent.startsWith("none"));
    assert.ok((await text("list")).includes("parse"));
    assert.ok(!(await text("list")).includes("eval"));
    assert.deepEqual(said, []);
  } finally {
    await browser.close();
    rmSync(folder, { recursive: true });
  }
});
