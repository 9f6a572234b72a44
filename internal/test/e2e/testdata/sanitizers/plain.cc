/* A program in C++ that uses the header. */
int main()
{
	char from_peer[8] = {};

	gorxe_wrote(from_peer, sizeof(from_peer));
	return from_peer[7];
}
