# Spends 60, 30 and 10 % of its thread's CPU time in `heavy`, `ordered` and `light`, for as many seconds as its argument
# says, and prints what each took by that clock, in ns. `ordered` is called by the block of a `sort_by`.
class Shares
  SHARES = { heavy: 60, ordered: 30, light: 10 }

  def initialize
    @spent = { heavy: 0, ordered: 0, light: 0 }
  end

  def heavy
    sum = i = 0
    while i < 50_000
      sum += i % 7
      i += 1
    end
    sum
  end

  def ordered
    sum = i = 0
    while i < 50_000
      sum += i % 5
      i += 1
    end
    sum
  end

  def light
    sum = i = 0
    while i < 50_000
      sum += i % 3
      i += 1
    end
    sum
  end

  def clock
    Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
  end

  def measured(name)
    start = clock
    send(name)
    @spent[name] += clock - start
  end

  def run(name)
    if name == :ordered
      [1, 2].sort_by { |number| measured(:ordered); -number }
    else
      measured(name)
    end
  end

  def main(seconds)
    finish = clock + 1e9 * seconds
    while clock < finish
      # The one that is furthest behind.
      run(SHARES.keys.min_by { |name| @spent[name].to_f / SHARES[name] })
    end
    @spent.each { |name, ns| puts "#{name} #{ns}" }
  end
end

Shares.new.main(ARGV[0].to_f)
