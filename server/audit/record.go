package audit

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
)

// The operations, in ZooKeeper's words (AuditConstants).
const (
	ServerStart       = "serverStart"
	ServerStop        = "serverStop"
	Create            = "create"
	Delete            = "delete"
	SetData           = "setData"
	SetACL            = "setAcl"
	Multi             = "multiOperation" // one that failed; of one that did not, each part has its line
	Reconfig          = "reconfig"
	EphemeralDeletion = "ephemeralZNodeDeletionOnSessionCloseOrExpire"
	Restore           = "restore"  // ours: a backup takes the place of nodes
	gap               = "auditGap" // ours: lines are missing here
)

// A Result is what came of an operation.
type Result uint8

// The results.
const (
	Success Result = iota
	Failure
	Invoked // it was asked for, and how it ends cannot be told: serverStop, a restore that was left
)

func (r Result) String() string { return [...]string{"success", "failure", "invoked"}[r] }

// A Record is one line. Fields that are empty are left out.
type Record struct {
	Session   int64
	User      string     // of the server itself; "": Users
	Users     []wire.ID  // of the client
	IP        netip.Addr // of the client
	Operation string
	Znode     string
	ZnodeType string // of a created node: TypeOf
	ACL       []wire.ACL
	Result    Result
}

// TypeOf is the type of a node that is created with these flags, as CreateMode names it.
func TypeOf(flags int32) string {
	switch flags {
	case 0:
		return "persistent"
	case 1:
		return "ephemeral"
	case 2:
		return "persistent_sequential"
	case 3:
		return "ephemeral_sequential"
	case 4:
		return "container"
	case 5:
		return "persistent_with_ttl"
	case 6:
		return "persistent_sequential_with_ttl"
	}
	return ""
}

// append adds the fields, with tabs between them, and the end of the line.
func (r *Record) append(b []byte) []byte {
	if r.Session != 0 {
		b = append(b, "session=0x"...)
		b = strconv.AppendUint(b, uint64(r.Session), 16)
		b = append(b, '\t')
	}
	switch {
	case r.User != "":
		b = appendField(b, "user=", r.User)
	default:
		b = appendUsers(b, r.Users)
	}
	if r.IP.IsValid() {
		b = r.IP.AppendTo(append(b, "ip="...))
		b = append(b, '\t')
	}
	b = appendField(b, "operation=", r.Operation)
	if r.Znode != "" {
		b = appendField(b, "znode=", r.Znode)
	}
	if r.ZnodeType != "" {
		b = appendField(b, "znode_type=", r.ZnodeType)
	}
	if len(r.ACL) > 0 {
		b = appendACL(b, r.ACL)
	}
	b = append(b, "result="...)
	b = append(b, r.Result.String()...)
	return append(b, '\n')
}

func appendField(b []byte, name, value string) []byte {
	return append(appendEscaped(append(b, name...), value, ""), '\t')
}

// appendUsers lists who the client has proved to be, and its address, which is an identity, too.
// A comma in a name, as in those of certificates, is escaped: it stands between two.
func appendUsers(b []byte, ids []wire.ID) []byte {
	first := true
	for _, id := range ids {
		name := acl.UserName(id)
		if name == "" {
			continue
		}
		if first {
			b = append(b, "user="...)
		} else {
			b = append(b, ',')
		}
		first = false
		b = appendEscaped(b, name, ",")
	}
	if first {
		return b
	}
	return append(b, '\t')
}

// appendACL writes scheme:id:permissions for each entry. ZooKeeper sets nothing between two of
// them, and shows the hashes of digests.
func appendACL(b []byte, list []wire.ACL) []byte {
	b = append(b, "acl="...)
	for i, a := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendEscaped(b, a.ID.Scheme, ",:"), ':')
		id := a.ID.ID
		if a.ID.Scheme == acl.SchemeDigest {
			id, _, _ = strings.Cut(id, ":")
		}
		b = append(appendEscaped(b, id, ","), ':')
		b = appendPerms(b, a.Perms)
	}
	return append(b, '\t')
}

// appendPerms writes permissions in the order of ZKUtil.getPermString.
func appendPerms(b []byte, p int32) []byte {
	for _, each := range [...]struct {
		bit    int32
		letter byte
	}{{wire.PermCreate, 'c'}, {wire.PermDelete, 'd'}, {wire.PermRead, 'r'}, {wire.PermWrite, 'w'}, {wire.PermAdmin, 'a'}} {
		if p&each.bit != 0 {
			b = append(b, each.letter)
		}
	}
	return b
}

// appendEscaped writes s so that it is one value on one line: what is no printable text as in
// Go's strings, a backslash doubled, and the characters in also with a backslash before them.
func appendEscaped(b []byte, s, also string) []byte {
	const hex = "0123456789abcdef"
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case c == '\\' || strings.IndexByte(also, c) >= 0:
				b = append(b, '\\', c)
			case c < ' ' || c == 0x7f:
				b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
			default:
				b = append(b, c)
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		case unicode.IsPrint(r):
			b = utf8.AppendRune(b, r)
		case r < 0x10000:
			b = append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		default:
			b = append(b, '\\', 'U')
			for shift := 28; shift >= 0; shift -= 4 {
				b = append(b, hex[r>>shift&15])
			}
		}
	}
	return b
}
