// A program whose stacks are known by its names: the method n7From3_5 is called by n3 and n5 alone, directly or through the JDK. A lambda
// counts as the method that it stands in. The thread "truth" runs until somebody ends it.
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

public class Truth implements Runnable {
	static volatile long sink;
	static int round;

	interface Shape {
		long n3From2(long x);
	}

	static class Square implements Shape {
		public long n3From2(long x) {
			return n9From3_8_10_11_12(x);
		}
	}

	static class Circle implements Shape {
		public synchronized long n3From2(long x) {
			return n9From3_8_10_11_12(x) + 1;
		}
	}

	static class Line implements Shape {
		final long bias = sink & 1;

		public long n3From2(long x) {
			long sum = bias;
			for (int i = 0; i < 50; i++)
				sum += n9From3_8_10_11_12(x + i);
			return sum;
		}
	}

	static final Shape[] SHAPES = {new Square(), new Circle(), new Line()};

	static long n2From1() {
		long sum = 0;
		for (int i = 0; i < 300; i++)
			sum += SHAPES[i % SHAPES.length].n3From2(i);
		return sum;
	}

	static long n4From1_4(int depth, long a, double b, int c, long d, long e, long f, long g, long h) {
		if (depth == 0)
			return n5From4(a + c + d + e + f + g + h);
		return n4From1_4(depth - 1, a + 1, b + 1.5, c ^ 3, d, e, f, g, h) + (long) b;
	}

	static long n5From4(long x) {
		long sum = x;
		for (int i = 0; i < 2000; i++)
			sum = sum * 31 + (sum >>> 7);
		return sum;
	}

	static long n6From1() {
		Integer[] numbers = new Integer[200];
		for (int i = 0; i < numbers.length; i++)
			numbers[i] = (i * 7919) % 1009;
		Arrays.sort(numbers, Comparator.comparing(i -> n7From6(i)));
		List<String> list = new ArrayList<>();
		for (Integer i : numbers)
			list.add(i.toString());
		list.forEach(s -> sink += n7From6(s.length()));
		return list.hashCode();
	}

	static int n7From6(int i) {
		int sum = i;
		for (int k = 0; k < 40; k++)
			sum = sum * 17 ^ k;
		return sum & 1023;
	}

	static long n8From1() {
		long sum = 0;
		for (int i = 0; i < 60; i++)
			try {
				sum += n12From8(i);
			} catch (IllegalStateException e) {
				sum += n9From3_8_10_11_12(e.getMessage().length());
			}
		return sum;
	}

	static long n12From8(int i) {
		if (i % 3 == 0)
			throw new IllegalStateException("every third " + i);
		return n9From3_8_10_11_12(i);
	}

	static long n9From3_8_10_11_12(long x) {
		long sum = x;
		for (int i = 0; i < 30; i++)
			sum += (sum << 3) ^ i;
		return sum;
	}

	static long n10From1() {
		StringBuilder b = new StringBuilder();
		for (int i = 0; i < 100; i++)
			b.append(i).append(',').append(n9From3_8_10_11_12(i) % 10);
		System.arraycopy(b.toString().getBytes(), 0, new byte[b.length()], 0, b.length());
		return b.toString().split(",").length;
	}

	static double n13From1(double x) {
		double sum = 0;
		for (int i = 1; i < 500; i++)
			sum += Math.sin(x + i) * Math.pow(i, 0.3) + Math.log(i);
		return sum;
	}

	static long n11From1() throws Exception {
		java.lang.reflect.Method m = Truth.class.getDeclaredMethod("n9From3_8_10_11_12", long.class);
		long sum = 0;
		for (int i = 0; i < 100; i++)
			sum += (Long) m.invoke(null, (long) i);
		java.util.zip.CRC32 crc = new java.util.zip.CRC32();
		crc.update(new byte[20000]);
		return sum + crc.getValue();
	}

	static void n1From0() throws Exception {
		sink += n2From1();
		sink += n4From1_4(20 + round % 200, 1, 2, 3, 4, 5, 6, 7, 8);
		sink += n6From1();
		sink += n8From1();
		sink += n10From1();
		sink += n11From1();
		sink += (long) n13From1(round);
		round++;
	}

	public void run() {
		try {
			for (;;)
				n1From0();
		} catch (Exception e) {
			throw new RuntimeException(e);
		}
	}

	public static void main(String[] args) throws Exception {
		Thread t = new Thread(new Truth(), "truth");
		t.start();
		t.join();
	}
}
