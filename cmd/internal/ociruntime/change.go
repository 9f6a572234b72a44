package ociruntime

import "encoding/json"

// Change changes the specification of a container (OCI Runtime Specification, config.md) as this
// runtime does. Callers that have no bundle use it, such as plugins of NRI. binary is the path of
// gorxe on the host. In the directory sockets are the sockets of the network namespaces' daemons. A
// container that needs no device stays as it is.
func Change(config []byte, binary, sockets string) ([]byte, error) {
	s, err := decode(config)
	if err == nil {
		err = s.container(host{binary: binary, sockets: sockets})
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}
