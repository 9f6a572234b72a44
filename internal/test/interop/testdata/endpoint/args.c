/* Commands: their arguments and their answers. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

char *args;

void say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
	fflush(stdout);
}

void ok(void) { say("ok"); }

/* fails says why a call failed; error 0 means that errno has it. */
void fails(const char *call, int error)
{
	if (error <= 0)
		error = errno;
	say("error %s: %s", call, strerror(error));
}

void answer(const char *call, int error)
{
	if (error)
		fails(call, error);
	else
		ok();
}

/* value finds name=... among the arguments. */
const char *value(const char *name)
{
	size_t n = strlen(name);
	const char *p;

	for (p = args; p && *p; p = strchr(p, ' ')) {
		while (*p == ' ')
			p++;
		if (!strncmp(p, name, n) && p[n] == '=')
			return p + n + 1;
	}
	return NULL;
}

uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = value(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

unsigned object(const char *name) { return number(name, 0) % OBJECTS; }

union ibv_gid gid_argument(const char *name)
{
	union ibv_gid gid = {};
	const char *text = value(name);
	int i;

	for (i = 0; text && i < 16; i++) {
		unsigned byte = 0;

		sscanf(text + 2 * i, "%2x", &byte);
		gid.raw[i] = byte;
	}
	return gid;
}
