# What a Ruby says of the stack that it stops in, for tests/unit/test_interp_ruby.c. Ruby 2.5 and later.
#
# F line =label =path  a frame, leaf first (text in hexadecimal); those of methods in C have the line of their caller
# .                    that is all of them: the thread waits to read a byte
#
# "end" is the last line. Stacks are made from chance: each form calls the next one in a way of its own.
$stdout.sync = true
$seed = (ARGV[1] || 1).to_i

def chance(n)
  $seed = ($seed * 1103515245 + 12345) & 0x7fffffff
  ($seed >> 8) % n
end

def hex(text)
  '=' + text.to_s.b.unpack('H*')[0]
end

def say(locations)
  out = +''
  locations.each { |l| out << "F #{l.lineno} #{hex(l.label)} #{hex(l.path)}\n" }
  $stdout.syswrite(out << ".\n")
end

def leaf
  say(caller_locations(0)); $stdin.sysread(1)
end

# A fiber of methods in C alone, which say nothing themselves.
def leaf_in_c
  each = RUBY_VERSION.to_f < 3.4 ? 'each' : 'Enumerator#each'
  $stdout.syswrite("F 0 #{hex(each)} =\n.\n")
  $stdin.each_byte.next
end

class Shape
  include Comparable
  attr_reader :n

  def initialize(n)
    @n = n
  end

  def <=>(other)
    $next ? Form.take : n <=> other.n
  end

  def plain
    Form.step(n)
  end

  def self.of_class(n)
    Form.step(n)
  end

  class << self
    def of_singleton(n)
      Form.step(n)
    end
  end

  define_method(:defined) do |n|
    Form.step(n)
  end

  define_method(:defined_deep) { |n| [1].each { [2].each { Form.step(n) } } }

  def method_missing(name, *args)
    name == :missing ? Form.step(args[0]) : super
  end

  def respond_to_missing?(name, all = false)
    name == :missing || super
  end

  alias other plain

  def with_variables(text)
    text =~ /(b)/
    Form.step(n); $1
  end

  class Inner < Shape
    def plain
      super
    end
  end
end

module Mixed
  def mixed(n)
    Form.step(n)
  end

  def self.of_module(n)
    Form.step(n)
  end

  module Deeper
    def self.deep(n)
      1.times { |i| 1.times { |k| Form.step(n) } }
    end
  end
end

module Refined
  refine String do
    def refined(n)
      Form.step(n)
    end
  end
end
using Refined

class User
  include Mixed

  def é(n)
    Form.step(n)
  end
end

Record = Struct.new(:n) do
  def in_struct
    Form.step(n)
  end
end

class Many
  include Enumerable

  def initialize(n)
    @n = n
  end

  def each
    yield @n
  end
end

# One text, many methods.
module Dsl
  def make(name)
    define_method(name) { |n| Form.step(n) }
  end
end

MADE = [0, 1].map do |i|
  c = Object.const_set("Made#{i}", Class.new)
  c.extend(Dsl)
  c.make(:made)
  c.class_eval do
    def in_block(n)
      Form.step(n)
    end
  end
  def c.of_each(n)
    Form.step(n)
  end
  c
end

# A method of many lines and instructions, which calls from any of them.
LINES = 300
eval("def long(n, line)\n" + (0...LINES).map { |i|
  i % 7 == 3 ? "\n\n  x = [#{i}, \"a\#{line}\", {a: line}] if line == -#{i + 1}" : "  Form.step(n) if line == #{i}"
}.join("\n") + "\nend", TOPLEVEL_BINDING, 'long.rb', 10)

class Form
  ANONYMOUS = Class.new do
    def in_anonymous(n)
      Form.step(n)
    end
  end
  PROC = proc { |n| Form.step(n) }
  LAMBDA = lambda { |n| Form.step(n) }
  SINGLE = Object.new
  def SINGLE.of_object(n)
    Form.step(n)
  end

  FORMS = [
    ->(n) { Shape.new(n).plain },
    ->(n) { Shape::Inner.new(n).plain },
    ->(n) { Shape.of_class(n) },
    ->(n) { Shape::Inner.of_singleton(n) },
    ->(n) { Shape.new(n).defined(n) },
    ->(n) { Shape.new(n).defined_deep(n) },
    ->(n) { Shape.new(n).missing(n) },
    ->(n) { Shape.new(n).other },
    ->(n) { Shape.new(n).with_variables('abc') },
    ->(n) { User.new.mixed(n) },
    ->(n) { User.new.é(n) },
    ->(n) { Mixed.of_module(n) },
    ->(n) { Mixed::Deeper.deep(n) },
    ->(n) { 'x'.refined(n) },
    ->(n) { Record.new(n).in_struct },
    ->(n) { ANONYMOUS.new.in_anonymous(n) },
    ->(n) { SINGLE.of_object(n) },
    ->(n) { MADE[n % 2].new.made(n) },
    ->(n) { MADE[n % 2].new.in_block(n) },
    ->(n) { MADE[n % 2].of_each(n) },
    ->(n) { PROC.call(n) },
    ->(n) { LAMBDA.(n) },
    ->(n) { [n].each(&PROC) },
    ->(n) { [n].map(&Form.method(:step)) },
    ->(n) { [Shape.new(n)].map(&:plain) },
    ->(n) { (n..n).sort_by { |i| step(i) } },
    ->(n) { {n => 1}.sort_by { |i, k| step(i) } },
    ->(n) { Many.new(n).sort_by { |i| step(i) } },
    ->(n) { Many.new(n).each_with_index.map { |i, k| step(i) } },
    ->(n) { Many.new(n).inject(0) { |a, i| step(i); 1 } },
    ->(n) { [1, 2].sort { |a, b| step(n); a <=> b } },
    ->(n) { $next = n; [Shape.new(1), Shape.new(2)].max },
    ->(n) { Hash.new { |h, k| h[k] = step(n) }[1] },
    ->(n) { 'abc'.gsub(/b/) { |m| step(n); m } },
    ->(n) { catch(:out) { step(n) } },
    ->(n) { n.tap { |i| step(i) } },
    ->(n) { loop { step(n); break } },
    ->(n) { 1.upto(1) { step(n) } },
    ->(n) { instance_exec(n) { |i| step(i) } },
    ->(n) { Shape.class_eval { Form.step(n) } },
    ->(n) { eval('step(n)') },
    ->(n) { eval("[1].each do\n  step(n)\nend", binding, 'evaluated.rb', 77) },
    ->(n) { Shape.class_eval("Form.step(#{n})") },
    ->(n) { begin; raise 'x'; rescue StandardError; step(n); end },
    ->(n) { begin; 1; ensure; step(n); end },
    ->(n) { [1].each { begin; raise 'x'; rescue StandardError; [2].each { step(n) }; end } },
    ->(n) { send(:step, n) },
    ->(n) { public_send(:step, n) },
    ->(n) { Form.method(:step).unbind.bind(Form).call(n) },
    ->(n) { TOPLEVEL_BINDING.eval("class Opened#{n}\n  Form.step(#{n})\nend") },
    ->(n) { TOPLEVEL_BINDING.eval("module Opened_#{n}\n  class << self\n    Form.step(#{n})\n  end\nend") },
    ->(n) { long(n, chance(LINES / 7) * 7) },
    ->(n) { Fiber.new { step(n) }.resume },
    ->(n) { Enumerator.new { |y| y << step(n) }.next },
    ->(n) { leaf_in_c },
    ->(n) { Thread.new { step(n) }.join },
    ->(n) { RubyVM::InstructionSequence.compile("Form.step(#{n})", 'compiled.rb', '/compiled.rb', 5).eval },
  ].freeze

  class << self
    def step(n)
      return leaf if n.zero?
      FORMS[chance(FORMS.size)].call(n - 1)
    end

    def take
      n, $next = $next, nil
      step(n)
      0
    end
  end
end

# Each form once, then as many as there is room for.
(ARGV[0] || 100).to_i.times do |i|
  i < Form::FORMS.size ? Form::FORMS[i].call(0) : Form.step(1 + chance(12))
end
$stdout.syswrite("end\n")
