package fault

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// refused has rules that Parse refuses, the word at fault, and the message. testdata/refused.md
// shows them.
var refused = []struct{ rule, word, why string }{
	{"", "", `it is empty: give a place and a fault, as in "packet drop,first=1"`},
	{"   ", "", `it is empty: give a place and a fault, as in "packet drop,first=1"`},
	{"drop", "drop", "unknown: a rule begins with packet, verb, completion, peer, port, device or limits"},
	{"paket drop", "paket", "unknown: is it packet?"},
	{"packet", "packet", "say what happens: drop, duplicate, delay, reorder, corrupt, truncate, mark or shape"},
	{"packet drp", "drp", "unknown: is it drop?"},
	{"packet drop p=1%", "drop p=1%", "options follow a comma: packet drop,p=1%"},
	{"packet drop 1%", "drop 1%", "options follow a comma: packet drop,p=1%"},
	{"packet drop p=1% first=3", "drop p=1% first=3", "options follow a comma: packet drop,p=1%,first=3"},
	{"packet drop often", "drop often", "options follow a comma: packet drop,KEY=VALUE"},
	{"packet explode", "explode", "unknown: a packet rule says drop, duplicate, delay, reorder, corrupt, truncate, mark or shape"},
	{"packet drop,", "", "there is nothing after the comma at byte 12"},
	{"packet drop,frist=1", "frist=1", "unknown: is it first?"},
	{"packet drop,first", "first", "give it a value: first=…"},
	{"packet drop,first=", "first=", "give it a value: first=…"},
	{"packet drop,first=1,first=2", "first=2", "first is given twice"},
	{"packet drop,first=0", "first=0", "give a number, 1 or more"},
	{"packet drop,first=-1", "first=-1", "give a number, 1 or more"},
	{"packet drop,every=many", "every=many", "give a number, 1 or more"},
	{"packet drop,count=0", "count=0", "give a number, 1 or more"},
	{"packet drop,first=2,every=3", "every=3", "it never fires: none of the first 2 is a multiple of 3"},
	{"packet drop,p=0", "p=0", "a probability is more than 0 and at most 1 (100%)"},
	{"packet drop,p=101%", "p=101%", "a probability is more than 0 and at most 1 (100%)"},
	{"packet drop,p=NaN", "p=NaN", "a probability is more than 0 and at most 1 (100%)"},
	{"packet drop,p=1", "p=1", "each candidate is hit without it: leave it out, or write p=1% for one of a hundred"},
	{"packet drop,seed=1", "seed=1", "nothing is drawn: give p or jitter as well"},
	{"packet drop,after=soon", "after=soon", "give a time with its unit, as 500us, 5ms or 2s, and 1h at most"},
	{"packet drop,after=2h", "after=2h", "give a time with its unit, as 500us, 5ms or 2s, and 1h at most"},
	{"packet drop,time=1ms", "time=1ms", "packet drop has no time: it has qp, peer, opcode, direction, size, psn, pid, command, label, scope, name, device, after, until, first, every, p, seed or count"},
	{"packet drop,name=a b", "name=a b", `a name has letters, digits and "_-.", 64 at most`},
	{"packet drop,scope=host", "scope=host", "give session or device"},
	{"packet drop,device=eth0", "device=eth0", "the name of a device begins with rxe or mlx5_"},
	{"packet drop,qp=XRC", "qp=XRC", "give RC, UC or UD, or a queue pair number from 1 to 0xfffffe"},
	{"packet drop,qp=0", "qp=0", "give RC, UC or UD, or a queue pair number from 1 to 0xfffffe"},
	{"packet drop,qp=1", "qp=1", "queue pair 1 belongs to no program: give scope=device as well"},
	{"packet drop,peer=host2", "peer=host2", "give the IPv4 or IPv6 address of one host, without a zone"},
	{"packet drop,direction=up", "direction=up", "give out, in or either"},
	{"packet drop,opcode=RC_SEND_ONYL", "opcode=RC_SEND_ONYL", "there is no opcode RC_SEND_ONYL: is it RC_SEND_ONLY?"},
	{"packet drop,opcode=XRC_*", "opcode=XRC_*", "there is no opcode XRC_*: names are those of the specification, as RC_SEND_ONLY or RC_RDMA_WRITE_*"},
	{"packet drop,opcode=[A-Z]", "opcode=[A-Z]", "the name of an opcode has letters, digits and _; * stands for any of them"},
	{"packet drop,qp=UD,opcode=RC_SEND_ONLY", "opcode=RC_SEND_ONLY", "a UD queue pair has no such packets"},
	{"packet drop,size=9-1", "size=9-1", "the range is empty: the first number is the larger one"},
	{"packet drop,size=5000", "size=5000", "give a number from 0 to 4096"},
	{"packet drop,opcode=RC_ACKNOWLEDGE,size=1-4096", "size=1-4096", "such packets have no payload"},
	{"packet drop,psn=0x1000000", "psn=0x1000000", "give a number from 0 to 16777215"},
	{"packet delay", "", "packet delay needs time=…"},
	{"packet delay,time=5", "time=5", "give a time with its unit, as 500us, 5ms or 2s, and 1h at most"},
	{"packet delay,time=1ms,jitter=2ms", "jitter=2ms", "it is more than time"},
	{"packet duplicate,copies=17", "copies=17", "give a number from 1 to 16"},
	{"packet reorder,by=0", "by=0", "give a number from 1 to 1024"},
	{"packet corrupt", "", "packet corrupt needs bit=… or field=…"},
	{"packet corrupt,bit=1,field=psn", "bit=1", "give either bit or field"},
	{"packet corrupt,bit=40000", "bit=40000", "give a number from 0 to 33343"},
	{"packet corrupt,field=colour", "field=colour", "there is no such field: give icrc, ack_req, dest_qp, dma_len, ieth_rkey, imm, migreq, msn, opcode, pad, pkey, psn, qkey, rkey, se, syndrome, tver or va"},
	{"packet corrupt,opcode=RC_ACKNOWLEDGE,field=rkey", "field=rkey", "such packets do not have it"},
	{"packet corrupt,field=pkey,value=0x10000", "value=0x10000", "the field has 16 bits"},
	{"packet corrupt,field=icrc,value=1", "value=1", "it is of a header field: give field=… as well, and not icrc"},
	{"packet corrupt,field=opcode,value=0x64", "value=0x64", "a datagram names its sender, so no other packet becomes one: give opcode=UD_* as well"},
	{"packet corrupt,field=qkey,value=0x80010000", "value=0x80010000", "Q_Keys from 0x80000000 on are for privileged senders"},
	{"packet shape", "", "packet shape needs rate=…, latency=… or loss=…"},
	{"packet shape,rate=1g", "rate=1g", "give a rate from 1kbit to 1000gbit, as 1gbit or 2.5mbit"},
	{"packet shape,rate=2000gbit", "rate=2000gbit", "give a rate from 1kbit to 1000gbit, as 1gbit or 2.5mbit"},
	{"packet shape,loss=2", "loss=2", "a probability is more than 0 and at most 1 (100%)"},
	{"packet shape,latency=1ms,queue=5", "queue=5", "packets wait for the rate: give rate=… as well"},
	{"packet shape,latency=1ms,ecn=5", "ecn=5", "packets wait for the rate: give rate=… as well"},
	{"packet shape,rate=1gbit,ecn=100", "ecn=100", "the queue has 99 packets at most, so it never marks any"},
	{"packet truncate", "", "packet truncate needs length=…"},
	{"packet truncate,length=11", "length=11", "give a number from 12 to 4168"},
	{"verb", "verb", "say what happens: fail or delay"},
	{"verb drop", "drop", "unknown: a verb rule says fail or delay"},
	{"verb fail", "", "verb fail needs verb=…"},
	{"verb fail,verb=create_qp", "", "verb fail needs errno=…"},
	{"verb fail,verb=creat_qp,errno=ENOMEM", "verb=creat_qp", "there is no verb creat_qp: is it create_qp?"},
	{"verb fail,verb=ibv_creat_qp,errno=ENOMEM", "verb=ibv_creat_qp", "there is no verb creat_qp: is it create_qp?"},
	{"verb fail,verb=ibv_*,errno=ENOMEM", "verb=ibv_*", "there is no verb ibv_*: there are " + oneOf(verbNames)},
	{"verb fail,verb=post recv,errno=ENOMEM", "verb=post recv", "the name of a verb has letters, digits and _; * stands for any of them"},
	{"verb fail,verb=post_recv,errno=ENOMEM", "verb=post_recv", "post_recv makes no call that reaches the device: it only uses memory"},
	{"verb fail,verb=create_qp,errno=ENOMEMORY", "errno=ENOMEMORY", "give the name of an errno, as ENOMEM"},
	{"verb fail,verb=create_qp,errno=ENOMME", "errno=ENOMME", "there is no such errno: is it ENOMEM?"},
	{"verb fail,verb=create_qp,errno=12", "errno=12", "give the name of an errno, as ENOMEM"},
	{"verb fail,verb=create_qp,errno=ENOMEM,qp=RC", "qp=RC", "verb fail has no qp: it has verb, errno, pid, command, label, scope, name, device, after, until, first, every, p, seed or count"},
	{"verb fail,verb=create_qp,errno=ENOMEM,command=a name of many", "command=a name of many", `a name has letters, digits and "_-.", 15 at most`},
	{"verb delay,verb=create_qp", "", "verb delay needs time=…"},
	{"verb delay,verb=create_qp,time=11s", "time=11s", "a verb waits 10s at most"},
	{"completion fail", "", "completion fail needs status=…"},
	{"completion fail,status=IBV_WC_SUCCESS", "status=IBV_WC_SUCCESS", "give an error of enum ibv_wc_status, as IBV_WC_RETRY_EXC_ERR"},
	{"completion fail,status=IBV_WC_RETRY_EXEC_ERR", "status=IBV_WC_RETRY_EXEC_ERR", "there is no such error in enum ibv_wc_status: is it IBV_WC_RETRY_EXC_ERR?"},
	{"completion fail,status=IBV_WC_FATAL_ERR,opcode=RC_SEND_ONLY", "opcode=RC_SEND_ONLY", "there is no operation RC_SEND_ONLY: there are " + oneOf(workNames)},
	{"completion fail,status=IBV_WC_FATAL_ERR,qp=UD,opcode=RDMA_READ", "opcode=RDMA_READ", "a UD queue pair has no such work requests"},
	{"completion fail,status=IBV_WC_FATAL_ERR,vendor_err=0x100000000", "vendor_err=0x100000000", "give a number from 0 to 4294967295"},
	{"completion delay,time=1ms,opcode=RECV", "opcode=RECV", "a receive completes when the message is there: delay its packets instead"},
	{"completion fail,status=IBV_WC_FATAL_ERR,event=IBV_EVENT_PORT_ERR", "event=IBV_EVENT_PORT_ERR", "give IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR or IBV_EVENT_QP_ACCESS_ERR"},
	{"device fail", "", "device fail needs event=…"},
	{"device fail,event=IBV_EVENT_PORT_ERR", "event=IBV_EVENT_PORT_ERR", "give IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR, IBV_EVENT_SRQ_LIMIT_REACHED or IBV_EVENT_DEVICE_FATAL"},
	{"device fail,event=IBV_EVENT_SRQ_ERR,opcode=SEND", "opcode=SEND", "only receives use a shared receive queue: RECV or RECV_RDMA_WITH_IMM"},
	{"completion delay,time=1ms,event=IBV_EVENT_QP_FATAL", "event=IBV_EVENT_QP_FATAL", "completion delay has no event: it has time, jitter, qp, opcode, pid, command, label, scope, name, device, after, until, first, every, p, seed or count"},
	{"packet drop,after=2s,until=1s", "until=1s", "it never fires: it is not later than after"},
	{"packet drop,until=7", "until=7", "give a time with its unit, as 500us, 5ms or 2s, and 1h at most"},
	{"peer rnr,opcode=RECV", "opcode=RECV", "peer rnr has no opcode: it has qp, pid, command, label, scope, name, device, after, until, first, every, p, seed or count"},
	{"peer dead", "dead", "unknown: a peer rule says rnr, silent, half_open or killed"},
	{"peer half_open", "", "peer half_open needs direction=…"},
	{"peer silent,first=1", "first=1", "peer silent has no first: it has qp, peer, pid, command, label, scope, name, device, after or until"},
	{"peer killed,scope=device", "scope=device", "peer killed has no scope: it has qp, opcode, pid, command, label, name, device, after, until, first, every, p, seed or count"},
	{"peer rnr,qp=1,scope=device", "qp=1", "programs post no work requests to queue pair 1"},
	{"verb fail,verb=post_send,errno=EIO,scope=device", "verb=post_send", "a rule for post_send is of one session, whose doorbells are then trapped: leave scope out, or name other verbs"},
	{"device remove,event=IBV_EVENT_QP_FATAL", "event=IBV_EVENT_QP_FATAL", "device remove has no event: it has time, qp, opcode, pid, command, label, scope, name, device, after, until, first, every, p, seed or count"},
	{"port down,time=1s", "", "a port belongs to all programs: give scope=device"},
	{"port down,time=1s,scope=session", "scope=session", "a port belongs to all programs: give scope=device"},
	{"port down,scope=device,times=3", "times=3", "it never ends without time: give time=… as well"},
	{"port down,time=1s,scope=device,first=1", "first=1", "port down has no first: it has time, times, scope, device, name or after"},
	{"port down,time=1s,scope=device,after=3", "after=3", "give a time with its unit, as 2s"},
	{"port down,time=1s,scope=device,times=1001", "times=1001", "give a number from 1 to 1000"},
	{"port gid_removed,time=1s,scope=device,gid=1024", "gid=1024", "give a number from 0 to 1023"},
	{"port speed,time=1s,scope=device,gbps=0", "gbps=0", "give a number from 1 to 1600"},
	{"port flap,time=1s,scope=device", "flap", "unknown: a port rule says down, gid_removed, gid_moved or speed"},
	{"limits set", "", "limits set needs a limit: " + oneOf(limitNames)},
	{"limits max_qp=4", "max_qp=4", "unknown: a limits rule says set"},
	{"limits set,max_qps=4", "max_qps=4", "unknown: is it max_qp?"},
	{"limits set,max_qp=1048576", "max_qp=1048576", "it must lower the device's own limit, which is 1048576: give a number from 1 to 1048575"},
	{"limits set,max_qp=0", "max_qp=0", "it must lower the device's own limit, which is 1048576: give a number from 1 to 1048575"},
	{"limits set,max_cqe=40000", "max_cqe=40000", "it must lower the device's own limit, which is 32767: give a number from 1 to 32766"},
	{"limits set,max_msg_sz=2GiB", "max_msg_sz=2GiB", "it must lower the device's own limit, which is 2147483648: give a number from 1 to 2147483647"},
	{"limits set,max_qp=4KiB", "max_qp=4KiB", "it must lower the device's own limit, which is 1048576: give a number from 1 to 1048575"},
	{"limits set,memory=0", "memory=0", "give a number of bytes, as 65536 or 64MiB"},
	{"limits set,max_qp=4,first=1", "first=1", "limits set has no first: it has " + oneOf(append(slices.Clone(limitNames), "device", "name"))},
	{"packet drop\n", "", "byte 12 is no printable character of ASCII"},
}

func TestRefused(t *testing.T) {
	for _, c := range refused {
		_, err := Parse(c.rule)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v", c.rule, err)
			continue
		}
		if e.Word != c.word || e.Why != c.why || e.Rule != c.rule || !strings.HasPrefix(c.rule[e.At:], c.word) {
			t.Errorf("%q: %q at %d: %s\nwant %q: %s", c.rule, e.Word, e.At, e.Why, c.word, c.why)
		}
	}
	for rule, names := range map[string][]string{
		"packet drop,opcode=": opcodeNames, "completion delay,time=1ms,opcode=": workNames, "verb fail,errno=EIO,verb=": verbNames,
	} {
		list := strings.Repeat("|*", len(names))[1:]
		if _, err := Parse(rule + list); err != nil {
			t.Error(err)
		}
		if _, err := Parse(rule + list + "|*"); err == nil || !strings.HasSuffix(err.Error(), ": name each one once") {
			t.Errorf("one name more than there are: %v", err)
		}
	}
	long := "packet drop,name=" + strings.Repeat("x", MaxText)
	if _, err := Parse(long); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long rule: %v", err)
	}
}

// TestDocs: docs/faults.md has a row for each fault and each key, and testdata/refused.md shows
// every refused rule with its message.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("testdata/refused.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		_, rows, found := strings.Cut(string(text), "\n| "+p.name+" | ")
		rows, _, _ = strings.Cut(rows, "\n\n")
		for _, f := range p.whats {
			if !found || !strings.Contains(rows, "\n| `"+f.name+"`") {
				t.Errorf("docs/faults.md has no row for the fault %s %s", p.name, f.name)
			}
		}
	}
	for _, k := range keys {
		if !regexp.MustCompile("(?m)^\\| `" + k.name + "`").Match(text) {
			t.Errorf("docs/faults.md has no row for the key %s", k.name)
		}
	}
	for _, c := range refused {
		_, err := Parse(c.rule)
		if line := "    gorxe: " + err.Error(); c.rule != "packet drop\n" && !strings.Contains(string(page), line) {
			t.Errorf("testdata/refused.md lacks:\n%s", line)
		}
	}
}

// accepted are rules with each key and each fault, as String writes them.
var accepted = []string{
	"packet drop",
	"packet drop,qp=0x11,peer=10.0.0.1,opcode=RC_SEND_*|RC_ACKNOWLEDGE,direction=out,size=1-256,psn=0x4d,name=a.b,device=rxe0,after=3,first=10,every=2,p=0.25,seed=9,count=4",
	"packet drop,qp=UD,peer=fe80::1,direction=in,size=0,scope=device,after=2s",
	"verb fail,verb=create_qp|rdma_*,errno=ENOMEM,pid=7,command=ib_write_bw,device=rxe0,first=1",
	"verb delay,verb=*,time=10s,jitter=1s",
	"packet shape,rate=1gbit,latency=1ms,loss=0.001,queue=100,ecn=20,direction=out",
	"peer silent,peer=10.0.0.1,after=1s",
	"peer half_open,direction=in,qp=RC",
	"peer killed,opcode=SEND,command=ib_send_bw,first=1",
	"device fail,event=IBV_EVENT_QP_FATAL,first=1",
	"device remove,time=1s,first=1",
	"completion fail,status=IBV_WC_REM_ACCESS_ERR,vendor_err=0,qp=RC,opcode=RDMA_*|RECV,first=1",
	"completion delay,time=1ms,jitter=1us,opcode=SEND",
	"completion fail,status=IBV_WC_FATAL_ERR,event=IBV_EVENT_QP_FATAL",
	"port down,time=1s,times=3,scope=device,device=rxe0,name=flap,after=2s",
	"port gid_removed,gid=0,time=1s,scope=device",
	"port gid_moved,gid=1,time=1s,times=2,scope=device",
	"port speed,gbps=100,time=1s,scope=device",
	"limits set,max_mw=0,max_qp=4,max_inline=0,max_msg_sz=1048576,memory=4096,device=rxe0,name=small",
	"peer rnr,qp=RC,after=1s,until=2s,first=3",
	"packet drop,qp=0x1,scope=device",
	"packet duplicate,copies=3",
	"packet delay,time=5ms,jitter=1ms,seed=1",
	"packet delay,time=1.5us,after=1us",
	"packet reorder,by=3,time=1s",
	"packet corrupt,bit=0",
	"packet corrupt,field=icrc",
	"packet corrupt,field=psn,value=5",
	"packet corrupt,field=qkey,value=17",
	"packet truncate,length=12",
	"packet mark,p=0.1",
}

func TestAccepted(t *testing.T) {
	for _, p := range places {
		for _, f := range p.whats {
			begin := p.name + " " + f.name
			if !slices.ContainsFunc(accepted, func(text string) bool { return text == begin || strings.HasPrefix(text, begin+",") }) {
				t.Errorf("no rule of accepted begins with %s", begin)
			}
		}
	}
	for _, text := range accepted {
		r, err := Parse(text)
		if err != nil || r.String() != text || r.Check() != nil {
			t.Errorf("%s: %v\n%v", text, err, r.String())
		}
	}
	for text, want := range map[string]string{
		" packet  drop,p=1% ":                       "packet drop,p=0.01",
		"packet drop,direction=either":              "packet drop",
		"packet drop,peer=::ffff:10.0.0.1":          "packet drop,peer=10.0.0.1",
		"packet drop,scope=session,seed=0,size=5-5": "packet drop,size=5",
	} {
		if r, err := Parse(text); err != nil || r.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, r.String(), err, want)
		}
	}
}

// TestExamples: what a shell completes is a rule.
func TestExamples(t *testing.T) {
	for _, text := range Examples() {
		if _, err := Parse(text); err != nil {
			t.Error(err)
		}
	}
	n := 0
	for i := range places {
		n += len(places[i].whats)
	}
	if len(Examples()) != n {
		t.Errorf("examples %q", Examples())
	}
}

// TestCheck: a rule that a Go program makes is checked like one that is read.
func TestCheck(t *testing.T) {
	for text, r := range map[string]Rule{
		"its place 0":        {},
		"needs time":         {Where: WherePacket, What: Delay},
		"never fires":        {Where: WherePacket, What: Drop, Choice: Choice{First: 1, Every: 2}},
		"has no by":          {Where: WherePacket, What: Drop, Effect: Effect{By: 3}},
		"give RC, UC or UD":  {Where: WherePacket, What: Drop, Scope: Scope{Type: "XRC"}},
		"there is no opcode": {Where: WherePacket, What: Drop, Scope: Scope{Opcode: "SEND"}},
	} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", r, err, text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range refused {
		f.Add(c.rule)
	}
	for _, text := range accepted {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) || e.Why == "" || e.Word != "" && !strings.HasPrefix(e.Rule[e.At:], e.Word) {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		again, err := Parse(r.String())
		if err != nil || !reflect.DeepEqual(r, again) || r.Check() != nil {
			t.Fatalf("%q became %q: %v", text, r.String(), err)
		}
		if r.compile().empty() && r.selected() == 0 && r.Where != WherePeer && r.Where != WherePort && r.Where != WhereLimits {
			t.Fatalf("%q has no candidates", text)
		}
	})
}

// TestVerbPrefix: a verb may have the name that a program uses.
func TestVerbPrefix(t *testing.T) {
	long, err := Parse("verb fail,verb=ibv_create_qp|reg_mr|rdma_connect,errno=ENOMEM")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"create_qp": true, "reg_mr": true, "rdma_connect": true, "create_cq": false} {
		if long.IsVerb(name) != want {
			t.Errorf("the rule is about %s: %v", name, !want)
		}
	}
}

// TestNearest: a guess differs in little of the word.
func TestNearest(t *testing.T) {
	words := []string{"EIO", "drop", "create_qp"}
	for given, want := range map[string]string{"foo": "", "EI": "EIO", "drp": "drop", "dorp": "drop", "creat_qp": "create_qp", "craete_qp": "create_qp", "nope": ""} {
		if got := Nearest(given, words); got != want {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
}
