package wire

import "fmt"

// Service is the transport service that an opcode belongs to, its top three
// bits (IBA 9.2.1). Reliable datagram opcodes are not supported.
type Service uint8

// The transport services, by the value of opcode bits 7-5.
const (
	ServiceRC  Service = 0
	ServiceUC  Service = 1
	ServiceRD  Service = 2
	ServiceUD  Service = 3
	ServiceCNP Service = 4
	ServiceXRC Service = 5
)

func (s Service) String() string {
	switch s {
	case ServiceRC:
		return "RC"
	case ServiceUC:
		return "UC"
	case ServiceRD:
		return "RD"
	case ServiceUD:
		return "UD"
	case ServiceCNP:
		return "CNP"
	case ServiceXRC:
		return "XRC"
	}
	return fmt.Sprintf("Service(%d)", uint8(s))
}

// Of returns the opcode that a service has for an operation of RC.
func (s Service) Of(rc Opcode) Opcode { return rc | Opcode(s)<<serviceShift }

// Opcode is the first byte of a BTH.
type Opcode uint8

const serviceShift = 5

// Reliable connection opcodes.
const (
	RCSendFirst          Opcode = 0x00
	RCSendMiddle         Opcode = 0x01
	RCSendLast           Opcode = 0x02
	RCSendLastImm        Opcode = 0x03
	RCSendOnly           Opcode = 0x04
	RCSendOnlyImm        Opcode = 0x05
	RCWriteFirst         Opcode = 0x06
	RCWriteMiddle        Opcode = 0x07
	RCWriteLast          Opcode = 0x08
	RCWriteLastImm       Opcode = 0x09
	RCWriteOnly          Opcode = 0x0a
	RCWriteOnlyImm       Opcode = 0x0b
	RCReadRequest        Opcode = 0x0c
	RCReadResponseFirst  Opcode = 0x0d
	RCReadResponseMiddle Opcode = 0x0e
	RCReadResponseLast   Opcode = 0x0f
	RCReadResponseOnly   Opcode = 0x10
	RCAck                Opcode = 0x11
	RCAtomicAck          Opcode = 0x12
	RCCompareSwap        Opcode = 0x13
	RCFetchAdd           Opcode = 0x14
	RCSendLastInv        Opcode = 0x16
	RCSendOnlyInv        Opcode = 0x17
	RCFlush              Opcode = 0x1c
	RCAtomicWrite        Opcode = 0x1d
)

// Unreliable connection opcodes.
const (
	UCSendFirst    Opcode = 0x20
	UCSendMiddle   Opcode = 0x21
	UCSendLast     Opcode = 0x22
	UCSendLastImm  Opcode = 0x23
	UCSendOnly     Opcode = 0x24
	UCSendOnlyImm  Opcode = 0x25
	UCWriteFirst   Opcode = 0x26
	UCWriteMiddle  Opcode = 0x27
	UCWriteLast    Opcode = 0x28
	UCWriteLastImm Opcode = 0x29
	UCWriteOnly    Opcode = 0x2a
	UCWriteOnlyImm Opcode = 0x2b
)

// Unreliable datagram opcodes.
const (
	UDSendOnly    Opcode = 0x64
	UDSendOnlyImm Opcode = 0x65
)

// OpCNP is the congestion notification packet (IBA A17.9.3).
const OpCNP Opcode = 0x81

// Extended reliable connection opcodes (IBA A14).
const (
	XRCSendFirst          Opcode = 0xa0
	XRCSendMiddle         Opcode = 0xa1
	XRCSendLast           Opcode = 0xa2
	XRCSendLastImm        Opcode = 0xa3
	XRCSendOnly           Opcode = 0xa4
	XRCSendOnlyImm        Opcode = 0xa5
	XRCWriteFirst         Opcode = 0xa6
	XRCWriteMiddle        Opcode = 0xa7
	XRCWriteLast          Opcode = 0xa8
	XRCWriteLastImm       Opcode = 0xa9
	XRCWriteOnly          Opcode = 0xaa
	XRCWriteOnlyImm       Opcode = 0xab
	XRCReadRequest        Opcode = 0xac
	XRCReadResponseFirst  Opcode = 0xad
	XRCReadResponseMiddle Opcode = 0xae
	XRCReadResponseLast   Opcode = 0xaf
	XRCReadResponseOnly   Opcode = 0xb0
	XRCAck                Opcode = 0xb1
	XRCAtomicAck          Opcode = 0xb2
	XRCCompareSwap        Opcode = 0xb3
	XRCFetchAdd           Opcode = 0xb4
	XRCSendLastInv        Opcode = 0xb6
	XRCSendOnlyInv        Opcode = 0xb7
)

// Info returns the properties of op. It is never nil; an opcode that does not
// exist has an Info that is not Valid.
func (op Opcode) Info() *OpInfo { return &opTable[op] }

// Service returns the transport service of op.
func (op Opcode) Service() Service { return Service(op >> serviceShift) }

// Operation returns op without its service (IBA 9.2.1). It is RC's opcode of the operation.
func (op Opcode) Operation() Opcode { return op & (1<<serviceShift - 1) }

func (op Opcode) String() string {
	if i := op.Info(); i.Valid() {
		return i.Name
	}
	return fmt.Sprintf("opcode 0x%02x", uint8(op))
}
