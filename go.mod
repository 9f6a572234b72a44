module github.com/gorxe/gorxe

go 1.26.0

require (
	github.com/alecthomas/kong v1.15.0
	github.com/alecthomas/mango-kong v0.1.0
	github.com/google/gopacket v1.1.19
	github.com/jotaen/kong-completion v0.0.4
	github.com/muesli/mango v0.1.1-0.20220205060214-77e2058169ab
	github.com/posener/complete v1.2.3
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/sys v0.49.0
)

require (
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/muesli/roff v0.1.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/riywo/loginshell v0.0.0-20200815045211-7d26008be1ab // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/net v0.0.0-20190620200207-3b0461eec859 // indirect
)
