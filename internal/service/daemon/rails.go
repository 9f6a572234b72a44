package daemon

// railGIDs is how long the table of GIDs of a rail is. NCCL makes two calls for each entry, which
// take 20 ms with the 1,024 of rdma_rxe.
const railGIDs = 32
