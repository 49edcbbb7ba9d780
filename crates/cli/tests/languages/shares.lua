-- Spends 60, 30 and 10 % of its CPU time in `heavy`, `ordered` and `light`, for as many seconds as its argument says, and
-- prints what each took, in ns. `ordered` is called by the function of a `table.sort`. `os.clock` is of the process, which
-- has one thread.
local shares = { heavy = 60, ordered = 30, light = 10 }
local spent = { heavy = 0, ordered = 0, light = 0 }

local functions = {}

function functions.heavy()
  local sum = 0
  for i = 1, 500000 do sum = sum + i % 7 end
  return sum
end

function functions.ordered()
  local sum = 0
  for i = 1, 500000 do sum = sum + i % 5 end
  return sum
end

function functions.light()
  local sum = 0
  for i = 1, 500000 do sum = sum + i % 3 end
  return sum
end

local function measured(name)
  local start = os.clock()
  functions[name]()
  spent[name] = spent[name] + os.clock() - start
end

local function run(name)
  if name == "ordered" then
    table.sort({ 2, 1 }, function(a, b) measured("ordered") return a < b end)
  else
    measured(name)
  end
end

-- Seconds of CPU time: Lua has no finer clock of the wall.
while os.clock() < tonumber(arg[1]) do
  -- The one that is furthest behind.
  local next = "heavy"
  for name, share in pairs(shares) do
    if spent[name] / share < spent[next] / shares[next] then next = name end
  end
  run(next)
end
for _, name in ipairs({ "heavy", "ordered", "light" }) do
  print(string.format("%s %.0f", name, spent[name] * 1e9))
end
