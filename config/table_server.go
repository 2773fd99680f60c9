package config

import "math"

// The rows of the table for one server: ports, folders, sessions, limits, data. Docs speak
// to the operator; what a field does in detail stands at the field.

const (
	anyInt  = math.MaxInt32
	anyLong = math.MaxInt64
	maxPort = 65535
	// maxTickMs keeps 20 ticks, the default of maxSessionTimeout, within 32 bits.
	maxTickMs = 100_000_000
)

func basicKeys() []Key {
	return []Key{
		integer("clientPort", "-1", -1, maxPort, func(c *Config) *int { return &c.ClientPort },
			"Port for clients; -1: none, 0: any free one.").withoutFile("2181"),
		address("clientPortAddress", "", func(c *Config) *string { return &c.ClientPortAddress },
			"Address that clientPort is bound to; all without it.").withoutFile("127.0.0.1").required(),
		integer("secureClientPort", "-1", -1, maxPort, func(c *Config) *int { return &c.SecureClientPort },
			"TLS port for clients; -1: none, 0: any free one."),
		address("secureClientPortAddress", "", func(c *Config) *string { return &c.SecureClientPortAddress },
			"Address that secureClientPort is bound to; all without it.").required(),
		boolean("client.portUnification", "false", func(c *Config) *bool { return &c.ClientPortUnification },
			"clientPort takes TLS too, decided by the first byte of a connection."),
		integer("clientPortListenBacklog", "-1", -1, maxPort, func(c *Config) *int { return &c.ClientPortListenBacklog },
			"Connections that wait to be accepted; -1: what the system gives."),
		boolean("clientTcpKeepAlive", "false", func(c *Config) *bool { return &c.ClientTCPKeepAlive },
			"The system probes idle client connections."),
		path("dataDir", "", func(c *Config) *string { return &c.DataDir },
			"Folder of snapshots, myid and log. Must be set in a file.").withoutFile("./zkd-data").required(),
		path("dataLogDir", "", func(c *Config) *string { return &c.DataLogDir },
			"Folder of the log; dataDir without it.").required(),
		boolean("datadir.autocreate", "true", func(c *Config) *bool { return &c.DataDirAutocreate },
			"Missing folders are created."),
		boolean("db.autocreate", "true", func(c *Config) *bool { return &c.DBAutocreate },
			"An empty dataDir is a new database even without a file named initialize in it."),
	}
}

func limitKeys() []Key {
	return []Key{
		integer("tickTime", "3000", 1, maxTickMs, func(c *Config) *int32 { return &c.TickTimeMs },
			"Milliseconds of one tick, the unit of initLimit, syncLimit and session expiry.").withoutFile("2000"),
		integer("minSessionTimeout", "-1", -1, anyInt, func(c *Config) *int32 { return &c.MinSessionTimeoutMs },
			"Shortest session timeout in milliseconds; -1: two ticks."),
		integer("maxSessionTimeout", "-1", -1, anyInt, func(c *Config) *int32 { return &c.MaxSessionTimeoutMs },
			"Longest session timeout in milliseconds; -1: twenty ticks."),
		integer("initLimit", "10", 1, anyInt, func(c *Config) *int { return &c.InitLimit },
			"Ticks that a server may take to connect and catch up."),
		integer("syncLimit", "5", 1, anyInt, func(c *Config) *int { return &c.SyncLimit },
			"Ticks that a server may be without a leader before it closes client connections."),
		integer("maxClientCnxns", "60", -1, anyInt, func(c *Config) *int { return &c.MaxClientCnxns },
			"Connections per client address; 0 or -1: unlimited.").changeable(),
		integer("maxCnxns", "0", -1, anyInt, func(c *Config) *int { return &c.MaxCnxns },
			"Connections in all; 0 or -1: as many as open files allow.").changeable(),
		integer("globalOutstandingLimit", "1000", 1, anyInt, func(c *Config) *int { return &c.GlobalOutstandingLimit },
			"Requests under way beyond which connections that wait for an answer are not read."),
		integer("jute.maxbuffer", "0xfffff", 1024, anyInt, func(c *Config) *int { return &c.JuteMaxBuffer },
			"Bytes of the largest request."),
		later("jute.maxbuffer.extrasize", KindInt, "0 or more", "",
			"Bytes that a record may have beyond jute.maxbuffer; as many again without it."),
		integer("connection_throttle_tokens", "0", 0, anyInt, func(c *Config) *int { return &c.Throttle.Tokens },
			"New and returning sessions that are let in at once; 0: unlimited."),
		integer("connection_throttle_fill_time", "1", 1, anyInt, func(c *Config) *int { return &c.Throttle.FillTimeMs },
			"Milliseconds after which connection_throttle_fill_count more are let in."),
		integer("connection_throttle_fill_count", "1", 1, anyInt, func(c *Config) *int { return &c.Throttle.FillCount },
			"Sessions more per connection_throttle_fill_time."),
		later("4lw.commands.whitelist", KindList, "", "srvr",
			"Four-letter words that are answered; *: all. srvr always is, isro with readonlymode.enabled.").changeable(),
		boolean("readonlymode.enabled", "false", func(c *Config) *bool { return &c.ReadOnlyMode },
			"A server without a leader answers reads of clients that accept it."),
		boolean("localSessionsEnabled", "false", func(c *Config) *bool { return &c.LocalSessionsEnabled },
			"Read-only mode may give out sessions that only this server knows.").kept(),
		boolean("extendedTypesEnabled", "true", func(c *Config) *bool { return &c.ExtendedTypesEnabled },
			"TTL nodes are allowed (ZooKeeper: false). Server numbers end at 254 then."),
		boolean("enforceQuota", "false", func(c *Config) *bool { return &c.EnforceQuota },
			"Hard quotas are enforced."),
	}
}

func dataKeys() []Key {
	return []Key{
		integer("snapCount", "0", 0, anyInt, func(c *Config) *int { return &c.SnapCount },
			"Transactions after which a snapshot is taken; 0: the size of the log alone decides (ZooKeeper: 100000)."),
		later("snapSizeLimitInKb", KindInt, "-1 or more", "",
			"As zkd.snapshotBytes, in KiB; 0 or -1: never by size."),
		{
			Name: "autopurge.snapRetainCount", Kind: KindInt, Allowed: "3 or more", Default: "3", Status: Honoured,
			Doc: "Snapshots that are kept, with the log from the oldest on.", set: setRetainCount,
		},
		{
			Name: "autopurge.purgeInterval", Kind: KindInterval, Status: Honoured, set: setPurgeInterval,
			Doc: "Time between two purges, in hours without a unit; 0: never. Without it, after every snapshot.",
		},
		integer("fsync.warningthresholdms", "1000", 0, anyInt, func(c *Config) *int64 { return &c.FsyncWarningMs },
			"Milliseconds; a sync that takes longer is logged."),
		integer("znode.container.checkIntervalMs", "60000", 1, anyInt, func(c *Config) *int64 { return &c.ContainerCheckIntervalMs },
			"Milliseconds between two looks for containers and TTL nodes that are due."),
		integer("znode.container.maxPerMinute", "10000", 1, anyInt, func(c *Config) *int { return &c.ContainerMaxPerMinute },
			"Containers and TTL nodes that are deleted per minute at most."),
		integer("znode.container.maxNeverUsedIntervalMs", "0", 0, anyLong, func(c *Config) *int64 { return &c.ContainerMaxNeverUsedMs },
			"Milliseconds after which a container that never had a child is deleted; 0: never."),
	}
}

// setRetainCount raises what is too little, as ZooKeeper does.
func setRetainCount(b *builder, v value) error {
	n, err := parseInteger(v.text, math.MinInt32, anyInt)
	if err != nil {
		return err
	}
	if n < 3 {
		b.warn(v.origin, v.written, "less than 3 snapshots are never kept; 3 is used")
		n = 3
	}
	b.cfg.SnapRetainCount = int(n)
	return nil
}

func setPurgeInterval(b *builder, v value) (err error) {
	const hourMs = 3600 * 1000
	b.cfg.PurgeIntervalMs, err = parseInterval(v.text, hourMs)
	return err
}

// zkdKeys are the keys of our own: an unknown one of them stops the start.
func zkdKeys() []Key {
	return []Key{
		integer("zkd.slowDiskMs", "500", 0, anyInt, func(c *Config) *int64 { return &c.SlowDiskMs },
			"A leader whose log syncs take so long hands over to a server whose take a quarter at most; 0: never."),
		integer("zkd.slowDiskForMs", "5000", 100, anyInt, func(c *Config) *int64 { return &c.SlowDiskForMs },
			"How long they must have taken zkd.slowDiskMs and more, without a good moment. When one write or sync has not come back for half as long again, the leader falls silent, and another one is elected."),
		enum("zkd.logStore", "segment", []string{"segment", "bolt"}, func(c *Config) *LogStore { return &c.LogStore },
			"What holds the log: append-only segments, or a bbolt database."),
		enum("zkd.logLevel", "info", []string{"debug", "info", "warn", "error"}, func(c *Config) *string { return &c.LogLevel },
			"Least severity that is logged.").alias("zkd.log.level").changeable(),
		enum("zkd.logFormat", "text", []string{"text", "json"}, func(c *Config) *string { return &c.LogFormat },
			"How log lines look.").alias("zkd.log.format"),
		path("zkd.logFile", "", func(c *Config) *string { return &c.LogFile },
			"File that the log goes to; standard error without it. SIGUSR1 opens it anew, after a rotation.").alias("zkd.log.file"),
		boolean("audit.enable", "false", func(c *Config) *bool { return &c.Audit },
			"Every change by a client of this server is written to an audit log, in ZooKeeper's form.").changeable(),
		path("zkd.auditFile", "", func(c *Config) *string { return &c.AuditFile },
			"File that the audit log goes to; standard output without it. SIGUSR1 opens it anew.").alias("zkd.audit.file").changeable(),
		later("zkd.snapshotBytes", KindInt, "0 or more", "",
			"Bytes of log after which a snapshot is taken; 0: snapCount alone decides. 134217728 without it and without snapSizeLimitInKb."),
		integer("zkd.handshakeTimeoutMs", "10000", 1, anyInt, func(c *Config) *int { return &c.HandshakeTimeoutMs },
			"Milliseconds after which a connection without a session is closed.").alias("nio.sessionlessCnxnTimeout"),
		integer("zkd.drainTimeoutMs", "5000", 0, anyInt, func(c *Config) *int { return &c.DrainTimeoutMs },
			"Milliseconds that a stop waits for requests under way; 0: not at all."),
		integer("zkd.maxConnBufferBytes", "4194304", 1024, anyLong, func(c *Config) *int64 { return &c.MaxConnBufferBytes },
			"Bytes of requests that one connection may have under way; beyond it, it is not read."),
		integer("zkd.maxConnQueueBytes", "16777216", 1024, anyLong, func(c *Config) *int64 { return &c.MaxConnQueueBytes },
			"Bytes that may wait for a client that does not read; beyond it, it is cut off."),
		integer("zkd.maxTotalBufferBytes", "268435456", 1024, anyLong, func(c *Config) *int64 { return &c.MaxTotalBufferBytes },
			"Bytes of requests under way of all connections; beyond it, none is read."),
		integer("zkd.maxConnRequests", "4096", 1, anyInt, func(c *Config) *int { return &c.MaxConnRequests },
			"Requests that one connection may have under way; beyond it, it is not read."),
		integer("zkd.maxConnWatches", "1000000", 0, anyInt, func(c *Config) *int { return &c.MaxConnWatches },
			"Watches of one connection, a path of more than 256 bytes counting as several; 0: unlimited."),
		integer("zkd.maxMultiOps", "65536", 1, 65536, func(c *Config) *int { return &c.MaxMultiOps },
			"Operations in one multi."),
		Key{
			Name: "zkd.advertisedAddress", Kind: KindAddress, Allowed: "host or host:port", Status: Kept,
			Doc: "Where clients reach this server, as shown in /zookeeper/config; the server line without it.",
			set: setAdvertised,
		}.required(),
		path("zkd.peerTLSDir", "", func(c *Config) *string { return &c.Cluster.PeerTLSDir },
			"Folder with ca.pem and node-N.pem, N the number of this server, for TLS between servers; zkd cert makes them.").required(),
		boolean("zkd.peerInsecure", "false", func(c *Config) *bool { return &c.Cluster.PeerInsecure },
			"The peer port may be open to the network without TLS: whoever reaches it can write anything."),
	}
}

// setAdvertised leaves the port 0 if there is none: settle takes the client port then.
func setAdvertised(b *builder, v value) error {
	host, ports, err := splitHost(v.text)
	if err != nil {
		return err
	}
	b.cfg.Advertised = HostPort{Host: host}
	if len(ports) == 0 {
		return nil
	}
	if b.cfg.Advertised, err = parseClientAddress(v.text); err != nil {
		return err
	}
	return nil
}
