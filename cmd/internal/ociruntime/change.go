package ociruntime

import "encoding/json"

// Change is what this runtime does to the specification of a container (OCI Runtime Specification,
// config.md), for those that change it by other means than a bundle. binary is gorxe on the host,
// and sockets the directory where daemons of network namespaces have their sockets. A container
// that needs no device stays as it is.
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
