-- Calls of many kinds, all of which end in `burn`, for as many seconds as its argument says.
local ffi = require('ffi')
ffi.cdef [[ void qsort(void *, size_t, size_t, int (*)(const void *, const void *)); ]]
local clock = os.clock

local function burn()
    local stop, x = clock() + 0.002, 0
    while clock() < stop do for i = 1, 2000 do x = x + i % 3 end end
    return x
end
local function recurse(n) -- 11
    if n == 0 then burn() return 1 end
    local deeper = recurse(n - 1)
    return deeper + 1
end
local function yields() burn() coroutine.yield(1) burn() return 2 end -- 16
local function resumes() -- 17
    local co = coroutine.create(function(a) local b = yields() return a + b end) -- 18
    coroutine.resume(co, 1)
    coroutine.resume(co, 2)
    return 1
end
local function wraps() -- 23
    local inner = coroutine.wrap(function() local a = resumes() return a end) -- 24
    local a = inner()
    return a
end
local function raises() burn() error('x') end -- 28
local function protects() -- 29
    local ok = pcall(raises)
    ok = xpcall(raises, function(message) burn() return message end) -- 31
    return ok
end
local function substitutes() -- 34
    local text = string.gsub('a', 'a', function(a) burn() return a end) -- 35
    return text
end
local function compare(a, b) burn() return a < b end -- 38
local function sorts() table.sort({ 2, 1 }, compare) return 1 end -- 39
local function variadic(...) local n = select('#', ...) burn() return n end -- 40
local function varies() local n = variadic(1, 2, 3) return n end -- 41
local object = setmetatable({}, {
    __index = function(self, key) burn() return key end, -- 43
    __add = function(a, b) burn() return 1 end, -- 44
})
local function indexes() local a = object.a return a end -- 46
local function adds() local a = object + 1 return a end -- 47
local function callback(a, b) burn() return 0 end -- 48
local function calls_back() -- 49
    local numbers = ffi.new('int[2]', 2, 1)
    local f = ffi.cast('int (*)(const void *, const void *)', callback)
    ffi.C.qsort(numbers, 2, 4, f)
    f:free()
    return 1
end
_G.burn = burn
local function loads() -- 57
    local chunk = loadstring('local x = burn()\nreturn x', '=loaded')
    local x = chunk()
    return x
end
local all = { function() return recurse(8) + 1 end, -- 62
    resumes, wraps, protects, substitutes, sorts, varies, indexes, adds, calls_back, loads }
local stop = clock() + arg[1]
while clock() < stop do
    for _, way in ipairs(all) do way() end
end
