/* Each rank adds the numbers of all ranks: mpicc -o sum sum.c */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int rank, ranks, sum;
	char host[MPI_MAX_PROCESSOR_NAME];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Get_processor_name(host, &ranks);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("rank %d of %d on %s: the sum is %d\n", rank, ranks, host, sum);
	MPI_Finalize();
	return sum != ranks * (ranks - 1) / 2;
}
