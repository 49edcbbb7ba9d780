// Spends 60, 30 and 10 % of its thread's CPU time in `heavy`, `ordered` and `light`, for as many seconds as its argument
// says, and prints what each took by that clock, in ns. `ordered` is called by the function of an `Array.sort`.
"use strict";

const shares = { heavy: 60, ordered: 30, light: 10 };
const spent = { heavy: 0, ordered: 0, light: 0 };

function heavy() {
  let sum = 0;
  for (let i = 0; i < 1000000; i++) sum += i % 7;
  return sum;
}

function ordered() {
  let sum = 0;
  for (let i = 0; i < 1000000; i++) sum += i % 5;
  return sum;
}

function light() {
  let sum = 0;
  for (let i = 0; i < 1000000; i++) sum += i % 3;
  return sum;
}

const functions = { heavy, ordered, light };

// Nanoseconds. Before Node 22 there is only the process's clock: its other threads do little, for there is no garbage.
function clock() {
  const used = process.threadCpuUsage ? process.threadCpuUsage() : process.cpuUsage();
  return 1000 * (used.user + used.system);
}

function measured(name) {
  const start = clock();
  functions[name]();
  spent[name] += clock() - start;
}

function run(name) {
  if (name === "ordered") {
    [2, 1].sort((a, b) => { measured("ordered"); return a - b; });
  } else {
    measured(name);
  }
}

function main(seconds) {
  const end = Date.now() + 1000 * seconds;
  while (Date.now() < end) {
    // The one that is furthest behind.
    let next = "heavy";
    for (const name in shares) {
      if (spent[name] / shares[name] < spent[next] / shares[next]) next = name;
    }
    run(next);
  }
  for (const name in spent) console.log(name, spent[name]);
}

main(Number(process.argv[2]));
