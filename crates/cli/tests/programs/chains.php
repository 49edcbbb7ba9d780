<?php
// Calls a function 200 times, each time by other functions, and writes these down. It is where it asks for its process.
//
//   chains.php FILE
mt_srand(1);
// Tables for unwinding its files are made meanwhile.
usleep(300000);
function stop($n) {
    global $argv;
    $names = ['getmypid'];
    foreach (debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS) as $call) {
        $name = isset($call['class']) ? $call['class'] . '::' . $call['function'] : $call['function'];
        $names[] = $name === 'eval' ? '(eval)' : $name;
    }
    $names[] = basename(__FILE__);
    file_put_contents($argv[1], $n . ' ' . implode(';', array_reverse($names)) . "\n", FILE_APPEND);
    getmypid();
}
function direct($f) { $f(); }
function by_sort($f) { $v = [1, 2]; usort($v, function ($a, $b) use ($f) { $f(); return 0; }); }
function by_map($f) { array_map(function ($x) use ($f) { $f(); }, [1]); }
function by_reduce($f) { array_reduce([1], function ($a, $b) use ($f) { $f(); }); }
function by_name($f) { call_user_func('direct', $f); }
function by_array($f) { call_user_func_array([new Thing($f), 'method'], []); }
function by_text($f) { eval('$f();'); }
function by_throw($f) { try { throw new Exception; } catch (Exception $e) { $f(); } finally { } }
function by_generator($f) { foreach (generate($f) as $x) { } }
function generate($f) { $f(); yield 1; }
function by_method($f) { (new Thing($f))->method(); }
function by_static($f) { Thing::fixed($f); }
function by_call($f) { (new Thing($f))->missing(); }
function by_static_call($f) { Thing::missing($f); }
function by_get($f) { $x = (new Thing($f))->missing; }
function by_set($f) { $x = new Thing($f); $x->missing = 1; }
function by_text_of($f) { strlen(new Thing($f)); }
function by_array_access($f) { $x = (new Thing($f))[0]; }
function by_count($f) { count(new Thing($f)); }
function by_iterator($f) { foreach (new Thing($f) as $x) { } }
function by_destructor($f) { $x = new Gone($f); unset($x); }
function by_pattern($f) { preg_replace_callback('/a/', function ($m) use ($f) { $f(); return ''; }, 'a'); }
class Thing implements ArrayAccess, Countable, IteratorAggregate {
    private $f;
    function __construct($f) { $this->f = $f; }
    function method() { ($this->f)(); }
    static function fixed($f) { $f(); }
    function __call($name, $arguments) { ($this->f)(); }
    static function __callStatic($name, $arguments) { $arguments[0](); }
    function __get($name) { ($this->f)(); }
    function __set($name, $value) { ($this->f)(); }
    function __toString() { ($this->f)(); return ''; }
    #[ReturnTypeWillChange]
    function offsetGet($at) { ($this->f)(); }
    #[ReturnTypeWillChange]
    function offsetSet($at, $value) { }
    #[ReturnTypeWillChange]
    function offsetExists($at) { return true; }
    #[ReturnTypeWillChange]
    function offsetUnset($at) { }
    #[ReturnTypeWillChange]
    function count() { ($this->f)(); return 1; }
    #[ReturnTypeWillChange]
    function getIterator() { ($this->f)(); return new ArrayIterator([]); }
}
class Gone {
    private $f;
    function __construct($f) { $this->f = $f; }
    function __destruct() { ($this->f)(); }
}
$ways = ['direct', 'by_sort', 'by_map', 'by_reduce', 'by_name', 'by_array', 'by_text', 'by_throw', 'by_generator', 'by_method',
    'by_static', 'by_call', 'by_static_call', 'by_get', 'by_set', 'by_text_of', 'by_array_access', 'by_count', 'by_iterator',
    'by_destructor', 'by_pattern'];
function chain($f, $depth) {
    global $ways;
    for ($i = 0; $i < $depth; $i++) {
        $way = $ways[mt_rand(0, count($ways) - 1)];
        $f = function () use ($way, $f) { $way($f); };
    }
    $f();
}
for ($n = 0; $n < 200; $n++) {
    eval("function sample_$n() { chain(function () { stop($n); }, mt_rand(0, 8)); }");
    ("sample_$n")();
}
