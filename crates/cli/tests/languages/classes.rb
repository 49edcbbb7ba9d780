# Methods of classes of all kinds, for as many seconds of CPU time as its argument says; `burn` takes the time. Prints whose methods they
# are by `Method#owner`, and from Ruby 3.4 on the labels of the stacks, which have classes, outermost first.
module Burner
  def self.burn
    $stacks[caller_locations.map(&:label).reverse] = true if RUBY_VERSION >= "3.4"
    sum = i = 0
    while i < 20_000
      sum += i % 7
      i += 1
    end
    sum
  end
end

module Mix
  def mixed; Burner.burn; end
end

# One method with two owners.
module Both
  module_function

  def both; Burner.burn; end
end

class Base
  def shared; Burner.burn; end
  def yields; yield; end
end

class ADerivedClassWithALongName < Base
  include Mix
  include Both

  class Inner
    def inner; [1].each { [2].each { Burner.burn } }; end
  end

  @name = "a variable of the program"
  class << self
    def made; Burner.burn; end
  end

  define_method(:defined) { Burner.burn }
  def shared; super; end
  def own_both; both; end
  def blocks; yields { Burner.burn }; end
end

def toplevel; Burner.burn; end

anonymous = Class.new { def nameless; Burner.burn; end }.new
single = Object.new
def single.only; Burner.burn; end

$stacks = {}
derived = ADerivedClassWithALongName.new
finish = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + ARGV[0].to_f
while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < finish
  derived.mixed
  Both.both
  derived.own_both
  derived.shared
  derived.blocks
  derived.defined
  ADerivedClassWithALongName.made
  ADerivedClassWithALongName::Inner.new.inner
  toplevel
  anonymous.nameless
  single.only
end

methods = [
  derived.method(:mixed), derived.method(:both), Base.instance_method(:shared), derived.method(:shared),
  derived.method(:yields), derived.method(:blocks), ADerivedClassWithALongName::Inner.instance_method(:inner),
  method(:toplevel), [].method(:each)
]
methods.each { |method| puts "#{method.owner}##{method.name}" }
[Both.method(:both), ADerivedClassWithALongName.method(:made)].each { |method| puts "#{method.receiver}.#{method.name}" }
puts "nameless", "only"
$stacks.each_key { |labels| puts "stack;" + labels.join(";") }
