package e2e

import "testing"

// steeringTests are rdma-core's tests of flow rules and RSS. A run that is not full has the first
// ones.
var steeringTests = []string{
	"test_flow.FlowTest.test_tcp_spec_flow_traffic", "test_rss_traffic.RSSTrafficTest.test_rss_traffic",

	"test_flow.FlowTest.test_eth_spec_flow_traffic", "test_flow.FlowTest.test_ipv4_spec_flow_traffic",
	"test_flow.FlowTest.test_ipv6_spec_flow_traffic", "test_flow.FlowTest.test_udp_spec_flow_traffic",
}

// TestRDMACoreSteering: they pass on an adapter.
func TestRDMACoreSteering(t *testing.T) { passByName(t, steeringTests, 2) }
