<?php
// Calls in all ways that PHP has, for as many seconds of CPU time as its argument says. `burn` takes the time, and calls nothing.
namespace App;

function burn() { $sum = 0; for ($i = 0; $i < 20000; $i++) { $sum += $i % 7; } return $sum; }
function recurse($n) { return $n ? recurse($n - 1) : burn(); }
function numbers() { for ($i = 0; $i < 2; $i++) { burn(); yield $i; } }
function consumes() { foreach (numbers() as $number) { } }
function throws() { try { throw new \Exception('x'); } catch (\Exception $e) { burn(); } }
function sorts() { $v = [2, 1]; usort($v, function ($a, $b) { burn(); return $a - $b; }); }
function evaluates() { eval('\App\burn();'); }
function fibers() {
    $fiber = new \Fiber(function () { burn(); \Fiber::suspend(); sorts(); });
    $fiber->start();
    $fiber->resume();
}

class Thing {
    function method() { $closure = function () { return burn(); }; return $closure(); }
    static function maps() { return array_map(function ($x) { return burn(); }, [1]); }
    function __call($name, $arguments) { return burn(); }
    function __get($name) { return burn(); }
    function __destruct() { burn(); }
}

$included = __DIR__ . '/included.php';
file_put_contents($included, '<?php \App\burn();');
function used() { $u = getrusage(); return $u['ru_utime.tv_sec'] + $u['ru_stime.tv_sec'] + ($u['ru_utime.tv_usec'] + $u['ru_stime.tv_usec']) / 1e6; }
$end = used() + (float) $argv[1];
while (used() < $end) {
    recurse(20);
    consumes();
    throws();
    sorts();
    evaluates();
    if (PHP_VERSION_ID >= 80100) { fibers(); }
    $thing = new Thing;
    $thing->method();
    Thing::maps();
    $thing->unknown();
    $thing->property;
    include $included;
}
