#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "endpoint.h"

/* do_frame puts an Ethernet frame, bytes=hex, on a link: what no device would send. */
void do_frame(void)
{
	static uint8_t frame[2048];
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	const char *text = value("bytes");
	char link[IF_NAMESIZE] = "";
	size_t n = 0;
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	for (; text && n < sizeof frame && sscanf(text, "%2hhx", &frame[n]) == 1; text += 2)
		n++;
	if (value("link"))
		sscanf(value("link"), "%15s", link);
	to.sll_ifindex = if_nametoindex(link);
	if (fd < 0 || sendto(fd, frame, n, 0, (struct sockaddr *)&to, sizeof to) != (ssize_t)n)
		fails("sendto", 0);
	else
		ok();
	close(fd);
}
