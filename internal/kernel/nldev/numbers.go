package nldev

// The numbers of include/uapi/rdma/rdma_netlink.h.

// Clients of NETLINK_RDMA. A message's type is client<<10 | command.
const (
	clientIWCM  = 2
	clientLS    = 4
	clientNLDEV = 5

	clientShift = 10
	commandMask = 1<<clientShift - 1
)

// Commands (enum rdma_nldev_command).
const (
	cmdGet           = 1
	cmdSet           = 2
	cmdNewLink       = 3
	cmdDelLink       = 4
	cmdPortGet       = 5
	cmdSysGet        = 6
	cmdSysSet        = 7
	cmdResGet        = 9
	cmdResQPGet      = 10
	cmdResCMIDGet    = 11
	cmdResCQGet      = 12
	cmdResMRGet      = 13
	cmdResPDGet      = 14
	cmdGetChardev    = 15
	cmdStatSet       = 16
	cmdStatGet       = 17
	cmdStatDel       = 18
	cmdResQPGetRaw   = 19
	cmdResCQGetRaw   = 20
	cmdResMRGetRaw   = 21
	cmdResCtxGet     = 22
	cmdResSRQGet     = 23
	cmdStatGetStatus = 24
	cmdResSRQGetRaw  = 25
	cmdNewDev        = 26
	cmdDelDev        = 27

	numCommands = 28
)

// Attributes (enum rdma_nldev_attr).
const (
	attrDevIndex      = 1
	attrDevName       = 2
	attrPortIndex     = 3
	attrCapFlags      = 4
	attrFWVersion     = 5
	attrNodeGUID      = 6
	attrSysImageGUID  = 7
	attrSubnetPrefix  = 8
	attrLID           = 9
	attrSMLID         = 10
	attrLMC           = 11
	attrPortState     = 12
	attrPortPhysState = 13
	attrDevNodeType   = 14

	attrResSummary          = 15
	attrResSummaryEntry     = 16
	attrResSummaryEntryName = 17
	attrResSummaryEntryCurr = 18
	attrResQP               = 19
	attrResQPEntry          = 20
	attrResLQPN             = 21
	attrResRQPN             = 22
	attrResRQPSN            = 23
	attrResSQPSN            = 24
	attrResPathMigState     = 25
	attrResType             = 26
	attrResState            = 27
	attrResPID              = 28
	attrResKernName         = 29
	attrResCMID             = 30
	attrResCMIDEntry        = 31
	attrResPS               = 32
	attrResSrcAddr          = 33
	attrResDstAddr          = 34
	attrResCQ               = 35
	attrResCQEntry          = 36
	attrResCQE              = 37
	attrResUseCnt           = 38
	attrResPollCtx          = 39
	attrResMR               = 40
	attrResMREntry          = 41
	attrResRKey             = 42
	attrResLKey             = 43
	attrResIOVA             = 44
	attrResMRLen            = 45
	attrResPD               = 46
	attrResPDEntry          = 47
	attrResLocalDMALKey     = 48
	attrResUnsafeGlobalRKey = 49
	attrNdevIndex           = 50
	attrNdevName            = 51
	attrResPDN              = 60
	attrResCQN              = 61
	attrResMRN              = 62
	attrResCMIDN            = 63
	attrResCtxN             = 64
	attrLinkType            = 65
	attrSysNetnsMode        = 66
	attrDevProtocol         = 67
	attrNetNSFD             = 68
	attrChardevType         = 69
	attrChardevName         = 70
	attrChardevABI          = 71
	attrChardev             = 72
	attrUverbsDriverID      = 73

	attrStatMode           = 74
	attrStatRes            = 75
	attrStatAutoModeMask   = 76
	attrStatCounter        = 77
	attrStatCounterID      = 79
	attrStatHWCounters     = 80
	attrStatHWCounterEntry = 81
	attrStatHWCounterName  = 82
	attrStatHWCounterValue = 83
	attrDevDIM             = 84
	attrResCtx             = 86
	attrResCtxEntry        = 87
	attrResSRQ             = 88
	attrResSRQEntry        = 89
	attrResSRQN            = 90
	attrMinRange           = 91
	attrMaxRange           = 92
	attrSysCopyOnFork      = 93
	attrStatHWCounterIndex = 94
	attrSysPrivilegedQKey  = 96
	attrDriverDetails      = 97

	numAttrs = 98
)

const (
	netnsExclusive  = 0 // each network namespace has devices of its own
	netnsShared     = 1 // every namespace sees the devices
	counterModeNone = 0 // RDMA_COUNTER_MODE_NONE
	firstPort       = 1
	ports           = 1
)
