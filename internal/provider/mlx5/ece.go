package mlx5

import (
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
)

// Enhancements of a connection (ECE; ibv_query_ece, ibv_set_ece). A program gives those of its peer
// to the adapter with CREATE_QP or MODIFY_QP, and the adapter answers which of them it takes. This
// one takes none, because what is on the wire stays.

// modified delivers the private response of MODIFY_QP (mlx5_ib_modify_qp), if the program asked for
// it: libmlx5 does so with options that the program has set.
func modified(u provider.UData) error {
	n := uapi.SizeOf[ModifyQPResp]()
	if u.Room() < n {
		return nil
	}
	return respond(u, ModifyQPResp{ResponseLength: uint32(n)})
}
