/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of `sonde`: one file each, one row in the table of cli/main.c each.
 */
#pragma once

struct cli_command {
	const char *words;   /* "merge", "check config" */
	const char *summary; /* for `sonde --help` */
	/* argv[0] is the command's last word; returns the exit status */
	int (*run)(int argc, char **argv);
};

/* Exit statuses of every command. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

int cli_merge(int argc, char **argv);
int cli_fold(int argc, char **argv);
int cli_diff(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_flamegraph(int argc, char **argv);
int cli_record(int argc, char **argv);
int cli_mark(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_query(int argc, char **argv);
int cli_push(int argc, char **argv);
int cli_tsdb_list(int argc, char **argv);
int cli_tsdb_verify(int argc, char **argv);
int cli_tsdb_dump(int argc, char **argv);
int cli_tsdb_stats(int argc, char **argv);
int cli_tsdb_compact(int argc, char **argv);
int cli_tsdb_repair(int argc, char **argv);
int cli_tsdb_snapshot(int argc, char **argv);
int cli_check_config(int argc, char **argv);
int cli_check_service_discovery(int argc, char **argv);
int cli_check_relabel(int argc, char **argv);
int cli_check_web_config(int argc, char **argv);
int cli_check_healthy(int argc, char **argv);
int cli_check_ready(int argc, char **argv);

/* "sonde: TEXT" on stderr; returns CLI_FAILED. */
struct errbuf;
int cli_fail(const struct errbuf *eb, int code);
