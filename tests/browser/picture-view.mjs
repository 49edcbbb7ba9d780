// Takes a picture of the viewer's page in which a function is chosen: picture-view.mjs PAGE.html STATE FUNCTION OUT.png WIDTH HEIGHT
import { launch } from "./browser.mjs";

const [, , page, state, name, out, width, height] = process.argv;
const browser = await launch();
const tab = await browser.newPage({ viewport: { width: Number(width), height: Number(height) } });
await tab.goto(`file://${page}#${state}`);
await tab.waitForSelector("#path button");
await tab.fill("#filter", `^${name}$`);
await tab.locator("#list .row").first().click();
await tab.fill("#filter", "");
await tab.waitForTimeout(300);
await tab.screenshot({ path: out });
await browser.close();
