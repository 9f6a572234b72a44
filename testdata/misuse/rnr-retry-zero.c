/* rnr-retry-zero: a connection that ends with the first late receive. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.rnr_retry = MISTAKE ? 0 : 7;
	rig_connect(&r); /* LINE */
	rig_end(&r);
	return 0;
}
