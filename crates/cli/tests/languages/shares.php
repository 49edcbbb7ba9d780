<?php
// Spends 60, 30 and 10 % of its CPU time in `heavy`, `ordered` and `light`, for as many seconds of it as its argument says, and
// prints what each took, in ns. `ordered` is called by the function of a `usort`. PHP has no clock of the thread, but one
// thread.

const SHARES = ['heavy' => 60, 'ordered' => 30, 'light' => 10];
$spent = ['heavy' => 0, 'ordered' => 0, 'light' => 0];

function heavy() { $sum = 0; for ($i = 0; $i < 50000; $i++) { $sum += $i % 7; } return $sum; }
function ordered() { $sum = 0; for ($i = 0; $i < 50000; $i++) { $sum += $i % 5; } return $sum; }
function light() { $sum = 0; for ($i = 0; $i < 50000; $i++) { $sum += $i % 3; } return $sum; }

// Nanoseconds, by the kernel's µs.
function clock() {
    $used = getrusage();
    return 1000 * (1000000 * ($used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec'])
        + $used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec']);
}

function measured($function) {
    global $spent;
    $start = clock();
    $function();
    $spent[$function] += clock() - $start;
}

function run($name) {
    if ($name === 'ordered') {
        $numbers = [2, 1];
        usort($numbers, function ($a, $b) { measured('ordered'); return $a - $b; });
    } else {
        measured($name);
    }
}

$end = clock() + 1e9 * (float) $argv[1];
while (clock() < $end) {
    // The one that is furthest behind.
    $next = 'heavy';
    foreach (SHARES as $name => $share) {
        if ($spent[$name] / $share < $spent[$next] / SHARES[$next]) { $next = $name; }
    }
    run($next);
}
foreach ($spent as $name => $ns) { echo "$name $ns\n"; }
