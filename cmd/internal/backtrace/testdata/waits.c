/* A program that waits in a call, below a function that is inlined. */
#include <unistd.h>

static inline __attribute__((always_inline)) void inlined(void)
{
	char c;
	(void)!read(0, &c, 1); /* INLINED */
}

__attribute__((noinline)) int waits(int n)
{
	char big[512];
	big[n] = 1;
	inlined(); /* WAITS */
	return big[n];
}

int main(void)
{
	return waits(7) - 1; /* MAIN */
}
