/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder of machine code beside binutils' objdump, on all code of libraries that have some of every kind: the length of each
 * instruction, and whether it writes a register that is followed.
 */
#include "exporter/parser/unwind/x86.h"
#include "lib/base/alloc.h"
#include "lib/base/cleanup.h"
#include <ctype.h>
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* objdump's text of a file's code, to be read line by line. */
static FILE *objdump(const char *path, pid_t *ret_pid)
{
	const char *const argv[] = {"objdump", "-d", "--insn-width=16", path, NULL};
	posix_spawn_file_actions_t actions;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	assert_int_equal(posix_spawnp(ret_pid, argv[0], &actions, NULL,
				 (char *const *)(uintptr_t)argv, environ),
		0);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	return fdopen(fds[0], "r");
}

/* Hex bytes up to a tab: how many. */
static size_t read_bytes(const char *text, uint8_t *to, size_t room)
{
	size_t n = 0;
	unsigned byte;

	while (n < room && isxdigit((unsigned char)*text) && sscanf(text, "%2x", &byte) == 1) {
		to[n++] = (uint8_t)byte;
		text += 3;
	}
	return n;
}

static bool is_one_of(const char *word, const char *const *words)
{
	for (; *words; words++)
		if (strncmp(word, *words, strlen(*words)) == 0)
			return true;
	return false;
}

static uint8_t bit_of_name(const char *name)
{
	static const struct {
		const char *name;
		uint8_t reg;
	} names[] = {{"%rbx", X86_BX}, {"%ebx", X86_BX}, {"%bx", X86_BX}, {"%bl", X86_BX},
		{"%bh", X86_BX}, {"%rbp", X86_FP}, {"%ebp", X86_FP}, {"%bp", X86_FP},
		{"%bpl", X86_FP}, {"%rsp", X86_SP}, {"%esp", X86_SP}, {"%sp", X86_SP},
		{"%spl", X86_SP}};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i].name) == 0)
			return X86_BIT(names[i].reg);
	return 0;
}

/* Cuts the last operand off; commas in brackets are of an address. */
static char *take_last_operand(char *operands)
{
	int depth = 0;

	for (char *p = operands + strlen(operands); p-- > operands;) {
		depth += *p == ')' ? 1 : *p == '(' ? -1 : 0;
		if (*p == ',' && depth == 0) {
			*p = 0;
			return p + 1;
		}
	}
	return operands;
}

/*
 * What AT&T syntax says is written: the last operand, but for instructions that only read it. Those that write two or none are
 * compared by their names alone.
 */
static uint8_t written(const char *mnemonic, char *operands)
{
	static const char *const read_only[] = {"cmp", "test", "push", "call", "jmp", "btl", "btq",
		"btw", "nop", "ud", "mul", "imul", "div", "idiv", "ret", "prefetch", "cl", "ld",
		"st", "f", "out", "ver", "lmsw", "lldt", "ltr", "inv", "wr", "xabort", "loop",
		"tpause", "umonitor", "umwait", "vmwrite", NULL};
	static const char *const two[] = {"xchg", "xadd", "mulx", NULL};
	char *comment = strstr(operands, " #"), *last;

	if (comment)
		*comment = 0;
	operands[strcspn(operands, " <")] = 0;
	last = take_last_operand(operands);
	if (is_one_of(mnemonic, two) && last != operands)
		return bit_of_name(last) | bit_of_name(take_last_operand(operands));
	if (strcmp(mnemonic, "bt") == 0)
		return 0;
	if (is_one_of(mnemonic, read_only) &&
		!(strncmp(mnemonic, "imul", 4) == 0 && last != operands))
		return 0;
	return bit_of_name(last);
}

static uint8_t told(const struct x86_insn *i)
{
	switch (i->kind) {
	case X86_POP:
	case X86_LOAD:
		return i->reg == X86_BX || i->reg == X86_SP || i->reg == X86_FP ? X86_BIT(i->reg)
										: 0;
	case X86_MOVE_SP:
	case X86_SP_FROM_FP: return X86_BIT(X86_SP);
	case X86_FP_FROM_SP: return X86_BIT(X86_FP);
	default: return i->writes;
	}
}

static bool is_prefix(const char *word)
{
	static const char *const exactly[] = {"lock", "notrack", "bnd", "data16", "cs", "ds", "es",
		"ss", "fs", "gs", "addr32", "xrelease", "xacquire"};
	static const char *const begins[] = {"rex", "rep", NULL};

	for (size_t i = 0; i < ARRAY_SIZE(exactly); i++)
		if (strcmp(word, exactly[i]) == 0)
			return true;
	return is_one_of(word, begins);
}

struct seen {
	size_t n, n_written, by_kind[X86_STOP + 1];
};

/* One line of the listing: "  address:\tbytes\tmnemonic operands". */
static void check_line(char *line, struct seen *seen)
{
	char *bytes = strchr(line, '\t'), *text = bytes ? strchr(bytes + 1, '\t') : NULL, *operands,
	     *name;
	uint8_t code[16], want;
	struct x86_insn insn;
	size_t n;

	if (!text)
		return;
	text[strcspn(text, "\n")] = 0;
	n = read_bytes(bytes + 1, code, sizeof(code));
	/* objdump takes fwait for a part of what follows it, and 66 before a jump as AMD does. */
	if (!n || code[0] == 0x9b || strstr(text, "(bad)") || strstr(text, ".byte") ||
		strstr(text, "jmpw") || strstr(text, "callw"))
		return;
	name = strrchr(text, ' ');
	if (is_prefix(name ? name + 1 : text + 1)) /* alone, before another one */
		return;
	x86_decode(code, n, &insn);
	if (insn.bytes != n)
		fail_msg("%s: %u bytes", line, insn.bytes);
	name = text + 1;
	operands = name + strcspn(name, " ");
	while (*operands) {
		*operands++ = 0;
		operands += strspn(operands, " ");
		if (!is_prefix(name))
			break;
		name = operands;
		operands = name + strcspn(name, " ");
	}
	want = *operands		    ? written(name, operands)
	       : strcmp(name, "cpuid") == 0 ? X86_BIT(X86_BX)
					    : 0;
	/* the stack by 16 bits, which only data read as code does, leaves nothing known */
	if (told(&insn) != want && strcmp(name, "leave") != 0 && strcmp(name, "enter") != 0 &&
		told(&insn) != (X86_BIT(X86_BX) | X86_BIT(X86_SP) | X86_BIT(X86_FP)))
		fail_msg("%s %s (%02x %02x %02x): writes %x, expected %x", name, operands, code[0],
			code[1], code[2], told(&insn), want);
	seen->n++;
	seen->n_written += want != 0;
	seen->by_kind[insn.kind]++;
}

static void test_beside_objdump(void **state)
{
	static const char *const files[] = {"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/x86_64-linux-gnu/libcrypto.so.3", "/usr/lib/x86_64-linux-gnu/libgmp.so.10",
		"/usr/lib/x86_64-linux-gnu/libgnutls.so.30", "/lib/ld-musl-x86_64.so.1"};
	struct seen seen = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_free_ char *line = NULL;
		size_t room = 0;
		pid_t pid;
		FILE *f;

		if (access(files[i], R_OK) < 0)
			continue;
		f = objdump(files[i], &pid);
		while (getline(&line, &room, f) > 0)
			check_line(line, &seen);
		fclose(f);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	printf("%zu instructions, %zu write rbx, rsp or rbp\n", seen.n, seen.n_written);
	assert_true(seen.n > 1000000);
	for (int kind = X86_OTHER; kind <= X86_STOP; kind++)
		if (kind != X86_JUMP_TABLE)
			assert_true(seen.by_kind[kind] > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_beside_objdump),
	};

	return cmocka_run_group_tests_name("x86", tests, NULL, NULL);
}
