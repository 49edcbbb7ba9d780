// Shared by the test and the measurement: the binary's pictures, a server for pages, a browser.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const TOP = fileURLToPath(new URL("../..", import.meta.url));
export const BINARY = process.env.PYROGRAPH ?? `${TOP}target/debug/pyrograph`;
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** The picture of folded stacks, which are of samples. */
export function draw(folded, ...options) {
  return execFileSync(BINARY, ["flamegraph", "--countname", "samples", ...options], {
    input: folded, encoding: "utf8", maxBuffer: 1 << 30,
  });
}

/** The comparison of two texts of folded stacks. */
export function drawDiff(before, after, ...options) {
  const folder = mkdtempSync(join(tmpdir(), "pyrograph-diff-"));
  try {
    const files = [[join(folder, "before"), before], [join(folder, "after"), after]];
    files.forEach(([path, text]) => writeFileSync(path, text));
    return execFileSync(BINARY, ["diff", "--svg", "--countname", "samples", ...files.map(([path]) => path), ...options], {
      encoding: "utf8", maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "ignore"],
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A browser that stays off the network. */
export function launch() {
  return chromium.launch({
    executablePath: CHROMIUM,
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
      "--disable-domain-reliability", "--no-pings", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ],
  });
}

/** Runs in a page: goes back or forward, waits until the page has followed, and returns the new fragment. */
export function travel(by) {
  return new Promise((done) => {
    addEventListener("hashchange", () => setTimeout(() => done(location.hash)), { once: true });
    history.go(by);
  });
}

/** Serves pages by path: `{ "/a.svg": text }`. */
export async function serve(pages) {
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    const type = path.endsWith(".svg") ? "image/svg+xml" : "text/html";
    const page = pages[path];
    response.writeHead(page === undefined ? 204 : 200, { "content-type": `${type}; charset=utf-8` });
    response.end(page ?? "");
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const address = `http://127.0.0.1:${server.address().port}`;
  return { address, close: () => server.close() };
}
