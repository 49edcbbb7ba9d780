// Takes a picture of a flame graph in a dark window with a search: picture.mjs GRAPH.svg OUT.png
import { chromium } from "playwright-core";

const [, , graph, out] = process.argv;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const page = await browser.newPage({ viewport: { width: 1200, height: 700 }, colorScheme: "dark" });
await page.goto(`file://${graph}#search=rank%7CArrayTimSort`);
await page.evaluate(() => scrollTo(0, document.documentElement.getBoundingClientRect().height));
await page.waitForTimeout(300);
await page.screenshot({ path: out });
await browser.close();
