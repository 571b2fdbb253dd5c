// SPDX-License-Identifier: Apache-2.0
//
// Copies the lines of a log that are not debug messages, with their length in front. docs/examples/buffered-io.md compares it built as it
// is, which flushes each line, with -DBUFFERED, which leaves that to the buffer.
#include <fstream>
#include <iostream>
#include <string>

#ifdef BUFFERED
constexpr char end_line = '\n';
#else
constexpr auto &end_line = std::endl<char, std::char_traits<char>>;
#endif

[[gnu::noinline]] static bool is_wanted(const std::string &line)
{
	return line.find(" debug ") == std::string::npos;
}

[[gnu::noinline]] static unsigned long checksum(const std::string &line)
{
	unsigned long sum = 5381;

	for (unsigned char c : line)
		sum = sum * 33 + c;
	return sum;
}

[[gnu::noinline]] static void emit(std::ostream &out, const std::string &line)
{
	out << line.size() << ' ' << checksum(line) << ' ' << line << end_line;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		std::cerr << "usage: log_filter INPUT OUTPUT\n";
		return 2;
	}
	std::ifstream in(argv[1]);
	std::ofstream out(argv[2]);
	std::string line;

	while (std::getline(in, line))
		if (is_wanted(line))
			emit(out, line);
	return out.flush() ? 0 : 1;
}
