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

// TestFlowMatchers: mlx5dv's flow rules take the frames that they match, end in the right order,
// and are refused with the errno of mlx5_ib.
func TestFlowMatchers(t *testing.T) {
	besideOthers(t)
	if native != "" || !selection.takes(standard) {
		return
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "mlx5_0=eth0")
	if got := d.run(t, compile(t, "flows"), "mlx5_0").ok(); got != flowsSays {
		t.Errorf("the program says\n%sand not\n%s", got, flowsSays)
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

const flowsSays = `a matcher: 0
without a rule:
a flow: 0
its frame: a 7
another port:
TCP:
the same flow to another queue pair: 0
its frame: a 7 b 7
the same flow with another tag: 17
a matcher for SYN: 0
drop: 0
a matcher for all: 0
a flow: 0
SYN:
RST: b 0
ibv_destroy_flow: 0
SYN: b 0
default miss: 0
SYN:
SYN, with a default rule: a 0
RST: b 0
mlx5dv_destroy_flow_matcher in use: 16
ibv_destroy_qp in use: 16
ibv_destroy_flow: 0
ibv_destroy_flow: 0
mlx5dv_destroy_flow_matcher: 0
its frame: b 0
ibv_destroy_flow: 0
ibv_destroy_flow: 0
mlx5dv_destroy_flow_matcher: 0
mlx5dv_dr_matcher_create: 0
mlx5dv_dr_rule_create: 0
its frame: b 9
mlx5dv_dr_rule_destroy: 0
mlx5dv_dr_matcher_destroy: 0
an empty mask: 22
a mask of 640 bytes: 0
of 641: 22
unknown criteria: 22
a mask without criteria: 22
checksums: 95
a part of the version: 95
a GRE key: 95
another table: 95
another table: 95
another table: 95
no action: 22
a value outside the mask: 22
a large tag: 22
an RC queue pair: 22
addresses without a version: 95
IPv6: 0
IPv4, with 16 bytes: 95
IPv5: 22
TCP and UDP: 22
priority 16: 12
a matcher for sniffers: 22
no criteria: 22
a mask in no memory: 14
a matcher: 0
a queue pair, and drop: 22
an unknown flag: 22
no queue pair: 2
no matcher: 2
a domain as a matcher: 22
a flow: 0
DESTROY_FLOW of the matcher: 22
FLOW_MATCHER_DESTROY in use: 16
DESTROY_FLOW: 0
FLOW_MATCHER_DESTROY: 0
more than 4000 flows: 1, then 28
`
