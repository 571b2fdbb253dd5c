/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions from a parser child. One is answered before the next is asked.
 */
#include "exporter/parser/links.h"
#include "lib/base/fd_message.h"

int links_find(void *links, const struct parser_link *link, uint32_t *ret_next)
{
	struct links *l = links;
	struct parser_link_answer answer;
	size_t n_fds;
	int fd = -1, n;

	if (l->fd < 0 || fd_message_send(l->fd, link, sizeof(*link), NULL, 0, 0) < 0)
		return -1;
	do
		n = fd_message_receive(l->fd, &answer, sizeof(answer), &fd, 1, &n_fds, 0);
	while (n == -EINTR);
	if (n != (int)sizeof(answer) || answer.magic != PARSER_MAGIC) {
		l->fd = -1;
		return -1;
	}
	*ret_next = answer.next;
	return fd;
}
