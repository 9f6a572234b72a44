/* retry-zero: a connection that ends with the first lost packet. */
#include "rig.h"

int main(int argc, char **argv)
{
	struct rig r = rig_make(argc);

	r.retry = MISTAKE ? 0 : 7;
	rig_connect(&r); /* LINE */
	rig_end(&r);
	return 0;
}
