// A server and a client of rsockets with many connections at a time. Usage: rsockets
// server|client ADDRESS PORT N. Each prints "ok" if all is well.
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sockaddr_in address;

static void need(const char *what, int i, int good)
{
	if (!good) {
		printf("%s, connection %d: %s\n", what, i, strerror(errno));
		exit(1);
	}
}

// make returns a socket with small queues and buffers.
static int make(void)
{
	int queue = 16, buffer = 4096, s = rsocket(AF_INET, SOCK_STREAM, 0);
	need("rsocket", 0, s >= 0);
	need("RDMA_SQSIZE", 0, rsetsockopt(s, SOL_RDMA, RDMA_SQSIZE, &queue, sizeof queue) == 0);
	need("RDMA_RQSIZE", 0, rsetsockopt(s, SOL_RDMA, RDMA_RQSIZE, &queue, sizeof queue) == 0);
	need("SO_SNDBUF", 0, rsetsockopt(s, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer) == 0);
	need("SO_RCVBUF", 0, rsetsockopt(s, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) == 0);
	return s;
}

// server accepts n connections. Then it sends back what each says, until each ends.
static void server(int n, int *s)
{
	int word, listener = make();
	need("rbind", 0, rbind(listener, (struct sockaddr *)&address, sizeof address) == 0);
	need("rlisten", 0, rlisten(listener, n) == 0);
	for (int i = 0; i < n; i++)
		need("raccept", i, (s[i] = raccept(listener, 0, 0)) >= 0);
	for (int i = 0; i < n; i++) {
		need("rrecv", i, rrecv(s[i], &word, sizeof word, MSG_WAITALL) == sizeof word);
		need("rsend", i, rsend(s[i], &word, sizeof word, 0) == sizeof word);
	}
	for (int i = 0; i < n; i++) {
		need("the end", i, rrecv(s[i], &word, sizeof word, 0) == 0);
		need("rclose", i, rclose(s[i]) == 0);
	}
	need("rclose", 0, rclose(listener) == 0);
}

static void client(int n, int *s)
{
	int word;
	for (int i = 0; i < n; i++)
		need("rconnect", i, rconnect(s[i] = make(), (struct sockaddr *)&address, sizeof address) == 0);
	for (int i = 0; i < n; i++) {
		need("rsend", i, rsend(s[i], &i, sizeof i, 0) == sizeof i);
		need("rrecv", i, rrecv(s[i], &word, sizeof word, MSG_WAITALL) == sizeof word && word == i);
	}
	for (int i = 0; i < n; i++)
		need("rclose", i, rshutdown(s[i], SHUT_RDWR) == 0 && rclose(s[i]) == 0);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	int n = atoi(argv[4]), *s = calloc(n, sizeof *s);
	address.sin_family = AF_INET;
	address.sin_port = htons(atoi(argv[3]));
	inet_pton(AF_INET, argv[2], &address.sin_addr);
	if (!strcmp(argv[1], "server"))
		server(n, s);
	else
		client(n, s);
	printf("ok\n");
	return 0;
}
