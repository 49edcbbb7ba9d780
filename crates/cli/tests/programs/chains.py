"""Calls a function 200 times, each time by other functions, and writes these down. It is where it sends itself a signal.

  chains.py FILE SIGNAL
"""
import functools, os, random, sys, time
random.seed(1)
time.sleep(0.3) # Tables for unwinding its files are made meanwhile.
def name(code): return getattr(code, 'co_qualname', code.co_name)
def stop(n):
    names, frame = [], sys._getframe()
    while frame: names.append(name(frame.f_code)); frame = frame.f_back
    with open(sys.argv[1], 'a') as out: print(n, ';'.join(reversed(names)), file=out)
    os.kill(os.getpid(), int(sys.argv[2]))
def direct(f): f()
def by_sort(f): sorted([1], key=lambda x: f())
def by_map(f): list(map(lambda x: f(), [1]))
def by_reduce(f): functools.reduce(lambda a, b: f(), [1, 2])
def by_generator(f):
    def generate(): f(); yield 1
    for x in generate(): pass
def by_comprehension(f): [f() for x in [1]]
class Class:
    def __init__(self, f): self.f = f
    def method(self): self.f()
    def __len__(self): self.f(); return 1
    def __del__(self): self.f()
def by_method(f): Class.method(Keep(f))
class Keep:
    def __init__(self, f): self.f = f
def by_slot(f):
    c = Class(f); c.__class__ = Sized; len(c)
class Sized(Class):
    def __del__(self): pass
def by_del(f): c = Class(f); del c
def by_exec(f): exec('f()', {'f': f})
WAYS = [direct, by_sort, by_map, by_reduce, by_generator, by_comprehension, by_method, by_slot, by_del, by_exec]
def chain(f, depth):
    for i in range(depth):
        way = random.choice(WAYS)
        f = functools.partial(way, f) if random.random() < .3 else (lambda way, f: lambda: way(f))(way, f)
    f()
for n in range(200):
    exec(f'def sample_{n}(): chain(lambda: stop({n}), random.randrange(9))\nsample_{n}()')
