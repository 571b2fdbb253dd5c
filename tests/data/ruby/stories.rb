# A program whose calls tests/e2e/test_unwind_ruby.py knows. All time is spent in spin, and in methods in C that the line which ends in `# leaf`
# calls. With `threads` a second thread tells the same stories, and a third one sleeps. Ruby 2.5 and later.
require 'zlib'

NUMBERS = (0...8).to_a
BYTES = Random.new(1).bytes(1_000_000)

def spin
  x = 1
  i = 0
  while i < 4000
    x = (x * 31 + i) & 0xffff
    i += 1
  end
  x
end

def plain
  spin
end

def recursive(n)
  n == 0 ? spin : recursive(n - 1)
end

def key(n)
  spin
  -n
end

def sort
  NUMBERS.sort_by { |n| key(n) } # C between
end

def sort_of_sort
  NUMBERS[0, 2].sort_by { |n| sort; n }
end

def slices
  NUMBERS.each_slice(3).sort_by { |a| a.map { |n| key(n) }.sum }
end

def reduce
  NUMBERS.inject { |a, b| spin; a + b }
end

def yielder
  yield
end

def blocks
  yielder { yielder { spin } }
end

def numbers
  return enum_for(:numbers) unless block_given?
  NUMBERS.each { |n| spin; yield n }
end

def in_fiber
  numbers.next # on a stack of its own
end

def fiber_in_c
  (0...30_000).each_slice(30_000).next # methods in C alone, on a stack of their own
end

def fiber
  f = Fiber.new { in_fiber; Fiber.yield; spin }
  f.resume
  f.resume
end

class Thing
  include Comparable
  attr_reader :n

  def initialize(n)
    @n = n
    method
  end

  def method
    spin
  end

  def <=>(other)
    spin
    n <=> other.n
  end

  def self.made
    spin
  end

  define_method(:defined) { spin }

  def method_missing(name, *args)
    name == :absent ? spin : super
  end

  def respond_to_missing?(name, all = false)
    name == :absent || super
  end

  def to_s
    spin
    'thing'
  end
end

def things
  a = Thing.new(1)
  b = Thing.new(2)
  [a, b].sort
  a < b
  Thing.made
  a.defined
  a.absent
  "#{a}"
  a.send(:method)
end

def lambdas
  l = ->(n) { spin }
  l.call(1)
  NUMBERS.first(2).each(&l)
  NUMBERS.first(2).map(&:itself)
end

def raises
  spin
  raise ArgumentError, 'x'
end

def exceptions
  raises
rescue ArgumentError
  spin
ensure
  spin
end

def evaluated
  eval('spin', binding, '<evaluated>', 7)
end

def text
  ('abc' * 4).gsub(/b/) { |m| spin; m }
end

def hash
  h = Hash.new { |t, k| t[k] = spin }
  h[1]
end

def thrown
  catch(:done) { spin; throw :done }
end

def checksum
  Zlib.crc32(BYTES) # leaf
end

# Functions of evaluated text, which live for one call.
def churn
  $generation = ($generation || 0) + 1
  g = $generation % 1000
  name = "churned_#{g}_#{Thread.current.object_id}"
  Object.class_eval("def #{name}; churn_mark_#{g % 4}; end", "<churn #{g}>", g + 1)
  send(name)
  Object.send(:remove_method, name)
end

4.times { |i| eval("def churn_mark_#{i}; spin; end", nil, __FILE__, __LINE__) }

STORIES = %i[plain sort sort_of_sort slices reduce blocks fiber fiber_in_c things lambdas exceptions evaluated text hash thrown checksum churn]

def rounds
  STORIES.each { |story| send(story) }
  recursive(60)
end

def worker
  loop { rounds }
end

def sleeper
  loop { sleep 0.001 }
end

if ARGV.include?('threads')
  Thread.new { worker }
  Thread.new { sleeper }
end
worker
