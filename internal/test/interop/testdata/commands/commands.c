/* Commands: their arguments and their answers. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"

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

int serve(const struct command *list, size_t known)
{
	static char line[4096];
	size_t i;

	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		args = strchr(line, ' ');
		if (args)
			*args++ = 0;
		for (i = 0; i < known && strcmp(line, list[i].name); i++)
			;
		if (i < known)
			list[i].run();
		else
			say("error no command %s", line);
	}
	return 0;
}
