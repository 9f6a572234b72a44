package e2e

import "testing"

// TestMLX5DV: what libmlx5 offers beside the verbs works on an adapter, and what needs DevX or is
// not offered is refused with the errno of an adapter without it.
func TestMLX5DV(t *testing.T) {
	besideOthers(t)
	if native != "" || !selection.takes(standard) {
		return
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "mlx5_0=eth0")
	if got := d.run(t, compile(t, "mlx5dv"), "mlx5_0").ok(); got != mlx5dvSays {
		t.Errorf("the program says\n%sand not\n%s", got, mlx5dvSays)
	}
}

const mlx5dvSays = `mlx5dv_is_supported: 1
mlx5dv_query_device: 0
  CQE version 1: 1
  padding: 1
  compression: 64
  strides: 15
  of bytes: 13
  clock: 1
  host time: 1000000000
  LAG: 0
mlx5dv_init_obj: 0
  bf.size: 256
  sq.stride: 64
  cqe_size: 64
mlx5dv_init_obj of a domain: 0
  pdn: 1
mlx5dv_query_port: 0
  flags: 0
mlx5dv_query_port of port 2: 22
mlx5dv_create_cq, compressed: 0
mlx5dv_create_wq, striding: 0
  max_wr: 4
ibv_modify_wq: 0
mlx5dv_init_obj of a work queue: 0
  stride: 32
ibv_destroy_wq: 0
ibv_destroy_cq: 0
mlx5dv_create_wq with short strides: 22
ibv_query_rt_values_ex: 0
  50 ms are at least 30 ms: 1
mlx5dv_get_clock_info: 0
  is now: 1
  older than 1 ms after a pause, more than 3 times of 10: 0
ibv_alloc_null_mr: 0
  WRITE: 0
  zeros, and no more: 1
  READ: 0
ibv_dereg_mr: 0
ibv_alloc_td: 0
ibv_alloc_parent_domain: 0
  WRITE: 0
ibv_dealloc_td in use: 16
ibv_dealloc_pd: 0
ibv_dealloc_td: 0
mlx5dv_devx_alloc_uar: 0
ibv_modify_cq: 0
  events after 1: 0
  events after 2: 0
  events after 3: 1
ibv_modify_cq with a long period: 34
ibv_alloc_dm: 0
ibv_reg_dm_mr: 0
ibv_memcpy_to_dm: 0
  FETCH_AND_ADD: 0
  was: 37
ibv_memcpy_from_dm: 0
  is: 42
  WRITE: 0
  READ of one part into another: 0
  has arrived: 1
  behind the region: 5
ibv_free_dm with a region: 16
ibv_dereg_mr: 0
ibv_free_dm: 0
max_send_sge: 5
  WRITE of as many: 0
  of one more: 12
max_inline_data is 64 or more: 1
  WRITE of as many: 0
  has arrived: 1
  of one more: 12
ibv_query_ece: 0
  of Mellanox: 1
  options: 0
ibv_set_ece of another vendor: 22
ibv_set_ece: 0
ibv_query_ece in RTS: 0
  options: 0
  WRITE: 0
DevX: open: 93
DevX: command: 93
DevX: object: 93
DevX: memory: 93
DC: 95
DR: 95
flow matcher: 93
memory key: 93
crypto: login: 95
crypto: key: 95
LAG: query: 95
LAG: modify: 95
VAR: 93
packet pacing: 93
reserved QPN: 95
operations of device memory: 95
`
