package ensemble

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxBytes bounds the text of a configuration. It has room for 255 members with long names.
const MaxBytes = 256 << 10

// A Config is a configuration of the ensemble: its members and its version.
//
// Invariants, which Parse, Change and Replace uphold and Check verifies:
//
//	C1  Members are in the order of their numbers, and each number occurs once;
//	C2  numbers are 1 to MaxID, every member has a peer address and a role;
//	C3  no two members have the same peer address;
//	C4  Version is not negative, and the text has at most MaxBytes.
type Config struct {
	Members []Member
	Version int64 // zxid of the transaction that made it, 0 if none has yet
}

// New is the configuration of these members, in any order.
func New(members []Member) (Config, error) {
	c := Config{Members: slices.Clone(members)}
	slices.SortStableFunc(c.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	if err := c.Check(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// Parse reads the text of a configuration: what String writes, or a file of server.N lines.
//
//	text    = line *( ( newline | "," ) line )
//	line    = "server." number "=" member | "version=" hexadecimal | ( "#" | "!" ) comment | blank
//
// As in a Java properties file, which ZooKeeper takes it for, the equals sign may be a colon
// or blanks. There are no escapes: no member needs one.
func Parse(text string) (Config, error) {
	if len(text) > MaxBytes {
		return Config{}, fmt.Errorf("the configuration has %d bytes; at most %d are possible", len(text), MaxBytes)
	}
	var members []Member
	var version int64
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value := splitLine(line)
		number, isServer := strings.CutPrefix(key, "server.")
		var err error
		switch {
		case isServer:
			var m Member
			m, err = parseLine(number, value)
			members = append(members, m)
		case key == "version":
			version, err = parseVersion(value)
		case strings.HasPrefix(key, "group"), strings.HasPrefix(key, "weight"):
			err = errors.New("groups and weights are not used: every participant has one vote")
		default:
			err = errors.New("is unknown; allowed: server.N and version")
		}
		if err != nil {
			return Config{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	c, err := New(members)
	c.Version = version
	return c, err
}

// splitLine cuts a line at its first equals sign, colon or blank.
func splitLine(line string) (key, value string) {
	end := strings.IndexAny(line, "=: \t\f")
	if end < 0 {
		return line, ""
	}
	value = strings.TrimSpace(line[end:])
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = value[1:]
	}
	return line[:end], strings.TrimSpace(value)
}

// parseLine reads number and text of a server.
func parseLine(number, text string) (Member, error) {
	id, err := parseNumber(number)
	if err != nil {
		return Member{}, err
	}
	if id < 1 || id > MaxID {
		return Member{}, fmt.Errorf("the number of a server is 1 to %d", MaxID)
	}
	return ParseMember(int(id), text)
}

// parseNumber reads a number as Java's Long.parseLong does.
func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not the number of a server", text)
	}
	return n, nil
}

func parseVersion(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 16, 63)
	if err != nil {
		return 0, fmt.Errorf("%q is not a version; allowed: a hexadecimal number of at most 63 bits", text)
	}
	return int64(n), nil
}

// String is the text as ZooKeeper writes it to /zookeeper/config: a line per server in the
// order of their numbers, and the version in hexadecimal without a newline. (ZooKeeper's
// order is that of a hash table, which from number 16 on may be another one.)
func (c Config) String() string {
	var b strings.Builder
	for _, m := range c.Members {
		fmt.Fprintf(&b, "server.%d=%s\n", m.ID, m.text())
	}
	b.WriteString("version=" + strconv.FormatInt(c.Version, 16))
	return b.String()
}

// Equal says whether members and version are the same.
func (c Config) Equal(o Config) bool { return c.Version == o.Version && c.SameMembers(o) }

// SameMembers says whether the members are the same, whatever the versions.
func (c Config) SameMembers(o Config) bool {
	return slices.EqualFunc(c.Members, o.Members, Member.Equal)
}

// Member returns the member with that number, nil if there is none.
func (c Config) Member(id int) *Member {
	if i, ok := c.find(id); ok {
		return &c.Members[i]
	}
	return nil
}

func (c Config) find(id int) (int, bool) {
	return slices.BinarySearchFunc(c.Members, id, func(m Member, id int) int { return cmp.Compare(m.ID, id) })
}

// Voters are the participants, in order.
func (c Config) Voters() []Member { return c.having(Participant) }

// Observers are the members without a vote, in order.
func (c Config) Observers() []Member { return c.having(Observer) }

func (c Config) having(role Role) []Member {
	var list []Member
	for _, m := range c.Members {
		if m.Role == role {
			list = append(list, m)
		}
	}
	return list
}

// Check verifies the invariants.
func (c Config) Check() error {
	if c.Version < 0 {
		return fmt.Errorf("the version %d is negative", c.Version)
	}
	peers := make(map[HostPort]int)
	size := 0
	for i, m := range c.Members {
		switch {
		case i > 0 && m.ID == c.Members[i-1].ID:
			return fmt.Errorf("server.%d comes twice", m.ID)
		case i > 0 && m.ID < c.Members[i-1].ID:
			return fmt.Errorf("server.%d comes after server.%d", m.ID, c.Members[i-1].ID)
		case m.ID < 1 || m.ID > MaxID:
			return fmt.Errorf("server.%d: the number of a server is 1 to %d", m.ID, MaxID)
		case len(m.Peers) == 0 || m.Role != Participant && m.Role != Observer:
			return fmt.Errorf("server.%d has no peer address or no role", m.ID)
		}
		for _, p := range m.Peers {
			a := HostPort{p.Host, p.Port}.folded()
			if other, taken := peers[a]; taken && other != m.ID {
				return fmt.Errorf("%s is the peer address of server.%d and of server.%d", a, other, m.ID)
			}
			peers[a] = m.ID
		}
		size += len(m.text())
	}
	const perLine = len("server.255=\n")
	if most := size + len(c.Members)*perLine + len("version=7fffffffffffffff"); most > MaxBytes {
		return fmt.Errorf("the configuration would have %d bytes; at most %d are possible", most, MaxBytes)
	}
	return nil
}
