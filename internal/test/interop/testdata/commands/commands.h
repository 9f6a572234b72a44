/*
 * A program that does what it is told: it reads commands, one a line: a word, then
 * name=value pairs. It answers each with a line, "ok name=value ..." or "error ...".
 */
#ifndef COMMANDS_H
#define COMMANDS_H

#include <stddef.h>
#include <stdint.h>

struct command {
	const char *name;
	void (*run)(void);
};

/* serve reads commands until the input ends, and returns the exit status. */
int serve(const struct command *list, size_t known);

/* The arguments of the command at hand, and the answer to it. */
extern char *args;
void say(const char *format, ...);
void ok(void);
void fails(const char *call, int error);
void answer(const char *call, int error);
const char *value(const char *name);
uint64_t number(const char *name, uint64_t otherwise);

#endif
