# Calls in all ways that Ruby has, for as many seconds of CPU time as its argument says. `burn` takes the time, and calls nothing.
module App
  def self.burn
    sum = i = 0
    while i < 20_000
      sum += i % 7
      i += 1
    end
    sum
  end

  class Thing
    def blocks; [1].each { App.burn }; end
    def each; yield 1; end
    def method_missing(name, *arguments); App.burn; end
    def respond_to_missing?(*); true; end
    def self.fixed; App.burn; end

    class << self
      def own; App.burn; end
    end
  end
end

def recurse(n) n > 0 ? recurse(n - 1) : App.burn end
def sorts; [2, 1].sort_by { |n| App.burn; n }; end
def consumes; App::Thing.new.each { App.burn }; end
def fibers
  fiber = Fiber.new { App.burn; Fiber.yield; sorts }
  fiber.resume
  fiber.resume
end
def throws
  raise "x"
rescue StandardError
  App.burn
end

loaded = File.join(__dir__, "loaded.rb")
File.write(loaded, "App.burn\n")
finish = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + ARGV[0].to_f
thread = Thread.new { App.burn while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < finish }
while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < finish
  recurse(20)
  sorts
  consumes
  fibers
  throws
  thing = App::Thing.new
  thing.blocks
  thing.unknown
  App::Thing.fixed
  App::Thing.own
  load loaded
end
thread.join
