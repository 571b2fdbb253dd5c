# Work without end for tests/unit/test_interp_ruby.c, which stops it at any moment. Functions of this file have names that begin with l and the
# number of those of them that are around them in the stack.
$stdout.sync = true

IN_RACTORS = ARGV[0].to_s.include?('ractors') # which may not call methods that are blocks

class Work
  def l2_sort(items)
    items.sort_by { |i| l3_key(i) }
  end

  def l3_key(i)
    (i * 7919) % 101
  end

  def l2_each_sorted(items)
    items.each_slice(3).sort_by { |a| l3_sum(a) }
  end

  def l3_sum(a)
    a.inject(0) { |s, i| s + l4_square(i) }
  end

  def l4_square(i)
    i * i
  end

  def l2_text(n)
    ('abc' * n).gsub(/b/) { |m| l3_upcase(m) }
  end

  def l3_upcase(m)
    m.upcase
  end

  def l2_fiber(n)
    Fiber.new { l0_in_fiber(n) }.resume
  end

  def l0_in_fiber(n)
    l1_deep(n)
  end

  def l1_deep(n)
    n.times.map { |i| l2_sort([i, 3, 1]) }
  end

  def l2_eval(n)
    eval("l3_key(#{n}) + #{n}", nil, "evaluated#{n % 7}.rb", 3)
  end

  def l2_rescue(n)
    raise ArgumentError, 'x' if n
  rescue ArgumentError
    l3_key(n)
  ensure
    l3_sum([n])
  end

  def l2_hash(n)
    h = Hash.new { |t, k| t[k] = l3_key(k) }
    n.times { |i| h[i] }
  end

  def l1_round(n)
    l2_sort((0...n).to_a)
    l2_each_sorted((0...n).to_a)
    l2_text(n)
    l2_fiber(n)
    l2_eval(n)
    l2_rescue(n)
    l2_hash(n)
    defined(n) unless IN_RACTORS
    Array.new(n) { |i| i.to_s }.join(',').split(',')
  end

  define_method(:defined) { |n| l2_defined(n) }

  def l2_defined(n)
    [1].each { |i| l3_key(i + n) }
  end
end

def l0_run
  work = Work.new
  loop { work.l1_round(20) }
end

others = 2.times.map { IN_RACTORS ? Ractor.new { l0_run } : Thread.new { l0_run } }
$stdout.syswrite("ready\n")
l0_run
