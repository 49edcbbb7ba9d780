// Takes a picture of a chart of the scheduler, a tenth of its time, pointing at a thread that another one woke:
// picture-chart.mjs CHART.html FILTER THREAD WAKER OUT.png
import { launch } from "./browser.mjs";

const [, , chart, filter, thread, waker, out] = process.argv;
const browser = await launch();
const page = await browser.newPage({ viewport: { width: 1200, height: 760 }, reducedMotion: "reduce" });
await page.goto(`file://${chart}`);
await page.waitForFunction(() => document.getElementById("span").textContent.startsWith("All"));
await page.locator("#filter").fill(filter);
const over = page.locator("#over");
await over.focus();
for (let presses = 0; presses < 6; presses++) await over.press("+");
const said = () => page.locator("#tip").innerText();
for (let presses = 0; presses < 40; presses++) {
  await over.press("ArrowDown");
  if ((await said()).startsWith(thread)) break;
}
const pattern = new RegExp(`then woken by ${waker}`);
for (let presses = 0; presses < 300 && !pattern.test(await said()); presses++) await over.press("Shift+ArrowRight");
if (!pattern.test(await said())) throw new Error(`${waker} did not wake ${thread}: ${await said()}`);
await page.waitForTimeout(300);
await page.screenshot({ path: out });
await browser.close();
