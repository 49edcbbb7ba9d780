// Takes a picture of the viewer's page in which a function is chosen: picture-view.mjs PAGE.html STATE FUNCTION OUT.png WIDTH HEIGHT
// The hottest of its instructions is in view, if the page has them.
import { resolve } from "node:path";
import { launch } from "./browser.mjs";

const [, , page, state, name, out, width, height] = process.argv;
const browser = await launch();
const tab = await browser.newPage({ viewport: { width: Number(width), height: Number(height) } });
await tab.goto(`file://${resolve(page)}#${state}`);
await tab.waitForSelector("#path button");
await tab.fill("#filter", `^${name}$`);
await tab.locator("#list .row").first().click();
await tab.fill("#filter", "");
await tab.evaluate(() => {
  document.activeElement.blur();
  const share = (of) => Number(of.textContent);
  const shares = [...document.querySelectorAll("#detail .share")];
  const hottest = shares.reduce((best, of) => best && share(best) >= share(of) ? best : of, null);
  hottest?.scrollIntoView({ block: "center", inline: "start" });
});
await tab.waitForTimeout(300);
await tab.screenshot({ path: out });
await browser.close();
