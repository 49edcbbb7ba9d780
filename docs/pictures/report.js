// Work whose profile changes with its argument, for the picture of a comparison: `report.js after`
// removes duplicates with a set instead of a search, and writes its lines with more care than before.
"use strict";
const after = process.argv[2] === "after";

function rows(seed) {
  const made = [];
  let state = seed;
  for (let i = 0; i < 6000; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    made.push({ id: state % 150, name: "item " + (state % 977), price: (state >>> 8) % 10000 });
  }
  return made;
}
function uniqueBySearch(list) {
  const ids = [];
  return list.filter((row) => ids.indexOf(row.id) < 0 && ids.push(row.id));
}
function uniqueBySet(list) {
  const ids = new Set();
  return list.filter((row) => !ids.has(row.id) && ids.add(row.id));
}
function sortRows(list) {
  return list.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.price - b.price));
}
function quote(text) {
  return after ? text.replace(/[&<>"]/g, (c) => "&#" + c.charCodeAt(0) + ";").normalize("NFC") : text;
}
function write(list) {
  let out = "";
  for (const row of list) { out += quote(row.name) + "," + row.price.toFixed(2) + "\n"; }
  return out;
}
function report(seed) {
  const list = rows(seed);
  return write(sortRows(after ? uniqueBySet(list) : uniqueBySearch(list))).length;
}
let sum = 0;
for (let seed = 1; seed <= 1200; seed++) { sum += report(seed); }
console.log(sum);
