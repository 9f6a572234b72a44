/* timeout-zero: a connection that never sends a lost packet again. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.timeout = MISTAKE ? 0 : 14;
	rig_connect(&r); /* LINE */
	rig_end(&r);
	return 0;
}
