# Turns the --help page of a program (on stdin) into a manual page in troff.
# usage: PROGRAM --help | awk -v name=sonde-exporter -v section=8 -v version=0.1.0 -f packaging/man.awk
# Two forms: the page of lib/base/options (headings in column 1), and the list of commands of `sonde` itself ("usage: …").

function escape(s) {
	gsub(/\\/, "\\e", s)
	gsub(/-/, "\\-", s)
	if (s ~ /^[.']/)
		s = "\\\&" s
	return s
}

# A line as it stands, in an unfilled block.
function verbatim(s) {
	if (!raw)
		print ".PP\n.nf"
	raw = 1
	print escape(s)
}

function filled() {
	if (raw)
		print ".fi"
	raw = 0
}

BEGIN {
	printf ".TH %s %s \"\" \"Sonde %s\" \"Sonde\"\n.nh\n", escape(toupper(name)), section, version
}

NR == 1 && /^usage:/ {
	printf ".SH NAME\n%s \\- work with profiles, and with what sonde\\-scraper stores and reads\n.SH SYNOPSIS\n", escape(name)
	part = "USAGE"
	sub(/^usage:/, "      ")
}

/^[A-Z][A-Z ]*$/ {
	filled()
	part = $0
	print ".SH " part
	next
}

/^commands:/ {
	filled()
	print ".SH COMMANDS"
	part = "COMMANDS"
	next
}

/^$/ {
	filled()
	blank = 1
	next
}

part == "USAGE" && /^[A-Z]/ {
	filled()
	print ".SH DESCRIPTION"
	print escape($0)
	next
}

part == "USAGE" || part == "SYNOPSIS" {
	sub(/^ +/, "")
	verbatim($0)
	next
}

part == "COMMANDS" {
	match($0, /^  [^ ]+( [^ ]+)*/)
	command = substr($0, 3, RLENGTH - 2)
	rest = substr($0, RLENGTH + 1)
	sub(/^ +/, "", rest)
	page = command
	gsub(/ /, "-", page)
	printf ".TP\n.B %s\n%s; see\n.BR %s\\-%s (1)\n", escape(command), escape(rest), escape(name), escape(page)
	next
}

# Deeper than its surroundings: examples, lists, tables.
part == "EXAMPLES" || part == "EXIT STATUS" || (part == "DESCRIPTION" && /^         /) {
	sub(/^       /, "")
	verbatim($0)
	blank = 0
	next
}

part == "OPTIONS" && /^   [^ ]/ {
	filled()
	print ".SS " escape(substr($0, 4))
	next
}

part == "OPTIONS" && /^       -/ {
	filled()
	print ".TP\n.B " escape(substr($0, 8))
	blank = 0
	next
}

part == "OPTIONS" && /^              Default: / {
	print ".br"
}

{
	filled()
	if (blank)
		print part == "OPTIONS" ? ".IP" : ".PP"
	blank = 0
	sub(/^ +/, "")
	print escape($0)
}

END {
	filled()
	if (section == 8)
		print ".SH SEE ALSO\n.BR sonde (1),\n.BR sonde\\-exporter (8),\n.BR sonde\\-scraper (8)"
}
