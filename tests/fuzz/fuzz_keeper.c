/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper's side of its protocol, its client's side, side-band records and bundles, on any bytes. The first byte chooses.
 * The server runs on this process's own socket pair; what it opens lies below an empty directory.
 */
#include "exporter/keeper/client.h"
#include "exporter/keeper/protocol.h"
#include "lib/base/fd_message.h"
#include "exporter/keeper/server.h"
#include "exporter/sample/replay.h"
#include "exporter/sample/sideband.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int no_attach(void *ctx, uint32_t event, uint32_t cpu, struct errbuf *eb)
{
	(void)ctx;
	return err_set(eb, -ENODEV, "event %u, CPU %u", event, cpu);
}

static int no_attach_file(
	void *ctx, uint32_t event, int file_fd, uint64_t offset, struct errbuf *eb)
{
	(void)ctx;
	return err_set(eb, -EINVAL, "event %u, descriptor %d, offset %llu", event, file_fd,
		(unsigned long long)offset);
}

static int no_opener(void *ctx, int *ret_sock, uint32_t *ret_pid, struct errbuf *eb)
{
	(void)ctx;
	(void)ret_sock;
	(void)ret_pid;
	return err_set(eb, -EBUSY, "none is left");
}

/* It does all that keeper and openers do. */
static void fuzz_server(const uint8_t *data, size_t size)
{
	struct copy_limit copies = {0};
	const struct server server = {.procfs = "/nowhere",
		.opens_files = true,
		.copies = &copies,
		.attach = no_attach,
		.attach_file = no_attach_file,
		.start_opener = no_opener};
	_cleanup_close_ int root = open("/proc/self/fdinfo", O_PATH | O_DIRECTORY | O_CLOEXEC);
	uint8_t buf[KEEPER_MAX_MESSAGE];
	struct keeper_reply reply;
	int sock[2], fds[KEEPER_MAX_FDS], r;
	size_t n_fds;

	if (!size || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		return;
	if (fd_message_send(sock[0], data, size, &root, size & 1, MSG_DONTWAIT) == 0 &&
		server_answer(&server, sock[1]) == 0) {
		r = fd_message_receive(
			sock[0], buf, sizeof(buf), fds, KEEPER_MAX_FDS, &n_fds, MSG_DONTWAIT);
		if (r <= 0 || protocol_get_reply(buf, (size_t)r, &reply) < 0 ||
			reply.n_fds != n_fds)
			__builtin_trap(); /* whatever was asked, the answer is well-formed */
		for (size_t i = 0; i < n_fds; i++)
			close(fds[i]);
	}
	close(sock[0]);
	close(sock[1]);
}

/* The input is what a broken keeper answers. */
static void fuzz_client(const uint8_t *data, size_t size)
{
	int sock[2], fd;
	struct keeper *k;

	if (!size || size > 2000 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		return;
	k = keeper_client_new(sock[1], 1);
	if (fd_message_send(sock[0], data, size, sock, 1, MSG_DONTWAIT) == 0) {
		shutdown(sock[0], SHUT_WR);
		fd = data[0] & 1   ? k->attach(k, ABI_EVENT_CPU, 1, NULL)
		     : data[0] & 2 ? k->attach_file(k, ABI_EVENT_CPU, sock[0], 1, NULL)
				   : -1;
		if (fd >= 0)
			close(fd);
		fd = k->open(k, 1, 0, KEEPER_MAPS, 0, 0);
		if (fd >= 0)
			close(fd);
	}
	k->close(k);
	close(sock[0]);
}

/* The input is what an opener that is not right copied: what is written lies within the ranges. */
static void fuzz_copies(const uint8_t *data, size_t size)
{
	uint8_t room[3][16];
	struct keeper_range ranges[3] = {{.bytes = 16, .to = room[0]}, {.bytes = 1, .to = room[1]},
		{.bytes = 16, .to = room[2]}};
	_cleanup_close_ int fd = memfd_create("copies", MFD_CLOEXEC);

	if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size ||
		copy_from_file(fd, ranges, ARRAY_SIZE(ranges)) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (ranges[i].copied > ranges[i].bytes)
			__builtin_trap();
}

static void on_sideband(void *ctx, const struct sideband *e)
{
	*(size_t *)ctx += e->path ? strlen(e->path) : 0;
}

/* Every byte that the record claims to have is there. */
static void on_stack(void *ctx, const struct abi_stack *s)
{
	const uint8_t *bytes = (const uint8_t *)(s + 1);

	for (uint32_t i = 0; i < s->bytes; i++)
		*(size_t *)ctx += bytes[i];
}

static void on_code(void *ctx, const struct abi_code *c, bool early)
{
	*(size_t *)ctx += c->object + c->check + early;
}

static void on_sample(void *ctx, const struct abi_record *r, bool late)
{
	for (unsigned i = 0; i < (unsigned)r->n_kernel + r->n_user; i++)
		*(size_t *)ctx += r->frames[i] + late;
}

static bool on_drained(void *ctx, uint64_t up_to_ns, int64_t boot_offset_ns)
{
	*(size_t *)ctx += up_to_ns + (uint64_t)boot_offset_ns;
	return false;
}

static void fuzz_replay(const uint8_t *data, size_t size)
{
	size_t sum = 0;
	const struct sample_sink sink = {.ctx = &sum,
		.sideband = on_sideband,
		.stack = on_stack,
		.code = on_code,
		.sample = on_sample,
		.drained = on_drained};
	_cleanup_(replay_freep)
	struct replay *r = NULL;
	struct clock_virtual clock;
	struct keeper *k;
	int fd;

	clock_virtual_init(&clock, 0);
	if (replay_open_bytes(data, size, &sink, &clock, &r, NULL) < 0)
		return;
	while (replay_step(r))
		;
	k = replay_keeper(r);
	fd = k->open(k, 1, 0, KEEPER_MAPS, 0, 0);
	if (fd >= 0)
		close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sideband s;

	if (!size)
		return 0;
	switch (data[0] & 7) {
	case 4: fuzz_copies(data + 1, size - 1); break;
	case 0: fuzz_server(data + 1, size - 1); break;
	case 1: fuzz_client(data + 1, size - 1); break;
	case 2: sideband_parse(data + 1, size - 1, data[0] & 0x80, &s); break;
	default: fuzz_replay(data + 1, size - 1); break;
	}
	return 0;
}
