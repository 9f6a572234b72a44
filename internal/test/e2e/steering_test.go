package e2e

import "testing"

// steeringTests are rdma-core's tests of flow rules, mlx5dv's matchers and RSS. A run that is not
// full has the first ones.
var steeringTests = []string{
	"test_flow.FlowTest.test_tcp_spec_flow_traffic", "test_rss_traffic.RSSTrafficTest.test_rss_traffic",
	"test_mlx5_flow.Mlx5MatcherTest.test_smac_matcher_to_qp_flow",

	"test_mlx5_flow.Mlx5MatcherTest.test_create_empty_matcher", "test_mlx5_flow.Mlx5MatcherTest.test_create_smac_matcher",
	"test_flow.FlowTest.test_eth_spec_flow_traffic", "test_flow.FlowTest.test_ipv4_spec_flow_traffic",
	"test_flow.FlowTest.test_ipv6_spec_flow_traffic", "test_flow.FlowTest.test_udp_spec_flow_traffic",
}

// TestRDMACoreSteering: they pass on an adapter.
func TestRDMACoreSteering(t *testing.T) { passByName(t, steeringTests, 3) }
