# Calls a method 200 times, each time by other methods, and writes these down. It is where it asks for its user.
#
#   chains.rb FILE
srand 1
OUT = ARGV[0]
# Tables for unwinding its files are made meanwhile.
sleep 0.3
def stop(n)
  names = caller_locations(0).map { |call| call.label }
  File.open(OUT, 'a') { |file| file.puts "#{n} #{names.reverse.join(';')};uid" }
  Process.uid
end
def direct(f); f.call; end
def by_sort(f); [1].sort_by { f.call }; end
def by_map(f); [1].map { f.call }; end
def by_each(f); [1].each { |x| f.() }; end
def by_inject(f); [1, 2].inject { f.call; 1 }; end
def by_yield(f); gives { f.call }; end
def gives; yield; end
def by_send(f); send(:direct, f); end
def by_text(f); eval('f.call'); end
def by_instance(f); instance_eval { f.call }; end
def by_method(f); Thing.new(f).call; end
def by_class(f); Thing.fixed(f); end
def by_missing(f); Thing.new(f).missing; end
def by_defined(f); Thing.new(f).defined; end
def by_operator(f); Thing.new(f) + 1; end
def by_compare(f); [Thing.new(f), Thing.new(f)].max; end
def by_string(f); "#{Thing.new(f)}"; end
def by_enumerator(f); Thing.new(f).each_with_index.each { }; end
def by_rescue(f)
  raise 'x'
rescue
  f.call
end
def by_ensure(f)
  1
ensure
  f.call
end
class Thing
  include Comparable
  def initialize(f); @f = f; end
  def call; @f.call; end
  def self.fixed(f); f.call; end
  def method_missing(name); @f.call; end
  define_method(:defined) { @f.call }
  def +(other); @f.call; end
  def <=>(other); (@f.call; 0); end
  def to_s; (@f.call; ''); end
  def each_with_index; (@f.call; []); end
end
WAYS = %i[direct by_sort by_map by_each by_inject by_yield by_send by_text by_instance by_method by_class by_missing by_defined
          by_operator by_compare by_string by_enumerator by_rescue by_ensure]
def chain(f, depth)
  depth.times do
    way, inner = WAYS.sample, f
    f = proc { send way, inner }
  end
  f.call
end
200.times do |n|
  eval "def sample_#{n}; chain(proc { stop(#{n}) }, rand(9)); end"
  send "sample_#{n}"
end
