package cli

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/version"
)

// nodeCommands are zkCli's commands about nodes.
func nodeCommands() []command {
	return []command{
		{name: "create", syntax: "[-s] [-e] [-c] [-t ttl] path [data] [acl]", about: "make a node: -s sequential, -e ephemeral, -c container, -t gone after ttl milliseconds without a change", opts: "s e c t:", min: 1, max: 3, run: runCreate},
		{name: "delete", syntax: "[-v version] path", about: "delete a node without children", opts: "v:", min: 1, max: 1, paths: []int{0}, run: runDelete},
		{name: "deleteall", syntax: "path [-b batch size]", about: "delete a node and everything below it", opts: "b:", min: 1, max: 1, paths: []int{0}, run: runDeleteAll},
		{name: "get", syntax: "[-s] [-w] [-b] [-x] path", about: "print the data: -s with the stat, -w and watch it, -b in base64, -x in hexadecimal", opts: "s w b x", min: 1, max: 2, paths: []int{0}, run: runGet},
		{name: "set", syntax: "path data [-s] [-v version] [-b]", about: "change the data: -s print the stat, -b the data is in base64", opts: "s v: b", min: 2, max: 2, paths: []int{0}, run: runSet},
		{name: "ls", syntax: "[-s] [-w] [-R] path", about: "list the children: -s with the stat, -w and watch them, -R everything below", opts: "s w R", min: 1, max: 2, paths: []int{0}, run: runLs},
		{name: "stat", syntax: "[-w] path", about: "print the stat: -w and watch the node", opts: "w", min: 1, max: 2, paths: []int{0}, run: runStat},
		{name: "sync", syntax: "path", about: "wait until the server has caught up with all that was written before", min: 1, max: 1, paths: []int{0}, run: runSync},
		{name: "getEphemerals", syntax: "path", about: "list this session's ephemeral nodes whose path starts so", max: 1, paths: []int{0}, run: runGetEphemerals},
		{name: "getAllChildrenNumber", syntax: "path", about: "count the nodes below", min: 1, max: 1, paths: []int{0}, run: runGetAllChildrenNumber},
		{name: "version", about: "print the version", max: 0, local: true, run: runVersion},
	}
}

// maxTTL is the longest TTL that fits into a stat, in milliseconds.
const maxTTL = 0xffffffffff

func runCreate(ctx context.Context, c *call) error {
	path := c.args[0]
	check := path
	if c.opts.has("s") {
		check += "1" // the server's number follows
	}
	if err := checkPath(check); err != nil {
		return err
	}
	var data []byte
	if len(c.args) > 1 {
		data = []byte(c.args[1])
	}
	var acl []client.ACL
	if len(c.args) > 2 {
		var err error
		if acl, err = parseACL(c.args[2]); err != nil {
			return err
		}
	}
	made, err := create(ctx, c, path, data, acl)
	if err != nil {
		return err
	}
	switch c.format {
	case formatJSON:
		return c.json(struct {
			Path string `json:"path"`
		}{made})
	case formatRaw:
		c.printf("%s\n", made)
	default:
		c.note("Created %s", made) // zkCli has it on standard error
	}
	return nil
}

func create(ctx context.Context, c *call, path string, data []byte, acl []client.ACL) (made string, err error) {
	ephemeral, sequential, container := c.opts.has("e"), c.opts.has("s"), c.opts.has("c")
	mode := client.ModePersistent
	switch {
	case container && (ephemeral || sequential):
		return "", usagef("-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.")
	case ephemeral && sequential:
		mode = client.ModeEphemeralSequential
	case ephemeral:
		mode = client.ModeEphemeral
	case sequential:
		mode = client.ModePersistentSequential
	}
	if !c.opts.has("t") {
		if container {
			made, _, err = c.view().CreateContainer(ctx, path, data, acl)
		} else {
			made, _, err = c.view().Create(ctx, path, data, mode, acl)
		}
		return made, err
	}
	ttl, err := strconv.ParseInt(c.opts["t"], 10, 64)
	switch {
	case err != nil:
		return "", usagef("-t argument must be a long value")
	case ephemeral:
		return "", usagef("TTLs cannot be used with Ephemeral znodes")
	case container:
		return "", usagef("TTLs cannot be used with Container znodes")
	case ttl < 1 || ttl > maxTTL:
		return "", usagef("-t %d: a ttl is 1 to %d milliseconds", ttl, int64(maxTTL))
	}
	made, _, err = c.view().CreateTTL(ctx, path, data, mode, time.Duration(ttl)*time.Millisecond, acl)
	return made, err
}

// version32 reads an option that is a version; -1, the default, is any.
func (c *call) version32() (int32, error) {
	v, ok := c.opts["v"]
	if !ok {
		return client.AnyVersion, nil
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return 0, c.wrong("-v " + v + " is no version; it is a number, -1 for any")
	}
	return int32(n), nil
}

func runDelete(ctx context.Context, c *call) error {
	path := c.args[0]
	v, err := c.version32()
	if err != nil {
		return err
	}
	return c.view().Delete(ctx, path, v)
}

// watched says whether a command leaves a watch: -w, or any word behind the path, as before 3.5.
func (c *call) watched() bool {
	if len(c.args) > 1 {
		c.note("'%s path [watch]' has been deprecated. Please use '%s' instead.", c.cmd.name, map[string]string{
			"ls": "ls [-w] path", "stat": "stat [-w] path", "get": "get [-s] [-w] path",
		}[c.cmd.name])
		return true
	}
	return c.opts.has("w")
}

func runGet(ctx context.Context, c *call) error {
	path := c.args[0]
	data, stat, err := get(ctx, c, c.view(), path)
	if err != nil {
		return err
	}
	return c.printData(path, data, stat)
}

// get reads a node and leaves a watch if one is wanted.
func get(ctx context.Context, c *call, view *client.Client, path string) ([]byte, client.Stat, error) {
	if !c.watched() {
		return view.Get(ctx, path)
	}
	data, stat, w, err := view.GetW(ctx, path)
	if err == nil {
		c.sh.await(w, kindData)
	}
	return data, stat, err
}

// printData prints what get has found.
func (c *call) printData(path string, data []byte, stat client.Stat) error {
	withStat := c.opts.has("s")
	if c.format == formatJSON {
		v := struct {
			Path string `json:"path"`
			dataJSON
			Stat *statJSON `json:"stat,omitempty"`
		}{Path: path, dataJSON: jsonData(data)}
		if withStat {
			v.Stat = jsonStat(stat)
		}
		return c.json(v)
	}
	text := string(data)
	switch {
	case c.opts.has("b"):
		text = base64.StdEncoding.EncodeToString(data)
	case c.opts.has("x"):
		text = hexDump(data)
	case data == nil && c.format == formatTable:
		text = "null"
	}
	c.printf("%s", text)
	if c.format == formatTable || withStat || c.opts.has("b") || c.opts.has("x") {
		c.printf("\n")
	}
	if withStat {
		c.printStat(stat)
	}
	return nil
}

func runSet(ctx context.Context, c *call) error {
	path := c.args[0]
	v, err := c.version32()
	if err != nil {
		return err
	}
	data := []byte(c.args[1])
	if c.opts.has("b") {
		if data, err = base64.StdEncoding.DecodeString(c.args[1]); err != nil {
			return c.wrong("the data is not base64: " + err.Error())
		}
	}
	stat, err := c.view().Set(ctx, path, data, v)
	if err != nil {
		return err
	}
	return c.printStatOf(path, stat, c.opts.has("s"))
}

// printStatOf prints the stat that a write has returned, if it is wanted; in JSON always.
func (c *call) printStatOf(path string, stat client.Stat, wanted bool) error {
	switch {
	case c.format == formatJSON:
		return c.json(struct {
			Path string    `json:"path"`
			Stat *statJSON `json:"stat"`
		}{path, jsonStat(stat)})
	case wanted:
		c.printStat(stat)
	}
	return nil
}

func runLs(ctx context.Context, c *call) error {
	path := c.args[0]
	watch := c.watched()
	if c.opts.has("R") {
		return listAll(ctx, c, path, watch)
	}
	names, stat, err := list(ctx, c, path, watch)
	if err != nil {
		return err
	}
	switch c.format {
	case formatJSON:
		v := struct {
			Path     string    `json:"path"`
			Children []string  `json:"children"`
			Stat     *statJSON `json:"stat,omitempty"`
		}{Path: path, Children: names}
		if c.opts.has("s") {
			v.Stat = jsonStat(stat)
		}
		return c.json(v)
	case formatRaw:
		for _, n := range names {
			c.printf("%s\n", n)
		}
	default:
		c.printf("[%s]\n", strings.Join(names, ", "))
	}
	if c.opts.has("s") {
		c.printStat(stat)
	}
	return nil
}

// list returns the sorted names of the children, never nil, and leaves a watch if one is wanted.
func list(ctx context.Context, c *call, path string, watch bool) ([]string, client.Stat, error) {
	var (
		names []string
		stat  client.Stat
		w     *client.Watch
		err   error
	)
	if watch {
		names, stat, w, err = c.view().ChildrenW(ctx, path)
	} else {
		names, stat, err = c.view().Children(ctx, path)
	}
	if err != nil {
		return nil, stat, err
	}
	if w != nil {
		c.sh.await(w, kindChild)
	}
	slices.Sort(names)
	return append([]string{}, names...), stat, nil
}

func runStat(ctx context.Context, c *call) error {
	path := c.args[0]
	var (
		stat  client.Stat
		found bool
		w     *client.Watch
		err   error
	)
	if c.watched() {
		stat, found, w, err = c.view().ExistsW(ctx, path)
	} else {
		stat, found, err = c.view().Exists(ctx, path)
	}
	if err != nil {
		return err
	}
	if w != nil {
		c.sh.await(w, kindData)
	}
	if !found {
		return &client.Error{Op: "exists", Path: path, Err: client.ErrNoNode}
	}
	return c.printStatOf(path, stat, true)
}

func runSync(ctx context.Context, c *call) error {
	path := c.args[0]
	if err := c.view().Sync(ctx, path); err != nil {
		return err
	}
	if c.format == formatJSON {
		return c.json(struct {
			Path string `json:"path"`
			Zxid string `json:"zxid"`
		}{path, hex(c.view().LastZxid())})
	}
	c.printf("Sync is OK\n")
	return nil
}

func runGetEphemerals(ctx context.Context, c *call) error {
	prefix := "/"
	if len(c.args) > 0 {
		prefix = c.args[0]
	}
	paths, err := c.view().Ephemerals(ctx, prefix)
	if err != nil {
		return err
	}
	switch c.format {
	case formatJSON:
		return c.json(append([]string{}, paths...))
	case formatRaw:
		for _, p := range paths {
			c.printf("%s\n", p)
		}
	default:
		c.printf("[%s]\n", strings.Join(paths, ", "))
	}
	return nil
}

func runGetAllChildrenNumber(ctx context.Context, c *call) error {
	path := c.args[0]
	n, err := c.view().AllChildrenNumber(ctx, path)
	if err != nil {
		return err
	}
	if c.format == formatJSON {
		return c.json(struct {
			Path   string `json:"path"`
			Number int    `json:"allChildrenNumber"`
		}{path, n})
	}
	c.printf("%d\n", n)
	return nil
}

func runVersion(_ context.Context, c *call) error {
	v := version.Get()
	if c.format == formatJSON {
		return c.json(struct {
			ZooKeeper string `json:"zookeeper"`
			Zkd       string `json:"zkd"`
		}{v.Full(), v.String()})
	}
	c.printf("ZooKeeper CLI version: %s\n", v.Full())
	return nil
}
