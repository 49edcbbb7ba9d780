-- Spends 60, 30 and 10 % of its CPU time in three functions, for as many seconds as its argument says, and prints what
-- each took by the thread's clock, in ns, beside where it begins. The second is called by what a sort compares with.
local ffi = require('ffi')
ffi.cdef [[
struct time { long seconds, nanoseconds; };
int clock_gettime(int, struct time *);
]]
local now = ffi.new('struct time')
local function clock()
    ffi.C.clock_gettime(3, now)
    return tonumber(now.seconds) * 1e9 + tonumber(now.nanoseconds)
end

local function heavy() local sum = 0 for i = 1, 50000 do sum = sum + i % 7 end return sum end
local function ordered() local sum = 0 for i = 1, 50000 do sum = sum + i % 5 end return sum end
local function light() local sum = 0 for i = 1, 50000 do sum = sum + i % 3 end return sum end

local shares = { { heavy, 60, 0, 'shares.lua:14' }, { ordered, 30, 0, 'shares.lua:15' }, { light, 10, 0, 'shares.lua:16' } }

local function measured(row)
    local start = clock()
    for i = 1, 20 do row[1]() end
    row[3] = row[3] + clock() - start
end

local function compare(a, b)
    measured(shares[2])
    return a < b
end

local start = clock()
while clock() - start < arg[1] * 1e9 do
    -- The one that is furthest behind.
    local next = shares[1]
    for _, row in ipairs(shares) do
        if row[3] / row[2] < next[3] / next[2] then next = row end
    end
    if next[1] == ordered then
        table.sort({ 2, 1 }, compare)
    else
        measured(next)
    end
end
for _, row in ipairs(shares) do print(string.format('%s %.0f', row[4], row[3])) end
