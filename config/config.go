package config

// Config is the whole configuration of one server after defaults, file, environment and
// flags. Load makes it and nobody changes it afterwards.
//
// Each field names its key, unit and default, and what breaks when it is too small or too
// large. Times are in milliseconds and end in Ms. "Kept" marks what is read and validated
// for a part of the server that is not in every release; see Key.Status.
type Config struct {
	// File is the configuration file, "" without one.
	File string
	// InitialConfig is the text of File with every secret value replaced by "***": what
	// the admin command initial_configuration shows.
	InitialConfig string
	// InMemory is true for `zkd dev`: nothing is written to a disk, DataDir is "".
	InMemory bool
	// Settings are the values that somebody set, as they are in force, in the order of
	// their names.
	Settings []Setting

	// ClientPort (clientPort): the plain port; -1: none; 0: any free one. Default 2181
	// without a file, none with one. The client part of this server's own server.N line
	// counts as set.
	ClientPort int
	// ClientPortAddress (clientPortAddress): where it is bound, an IP address without
	// brackets or a host name; "": everywhere. Default 127.0.0.1 without a file.
	ClientPortAddress string
	// SecureClientPort (secureClientPort): the TLS port, as ClientPort. Default -1.
	SecureClientPort int
	// SecureClientPortAddress (secureClientPortAddress): as ClientPortAddress. Default "".
	SecureClientPortAddress string
	// ClientPortUnification (client.portUnification): the plain port takes TLS too, decided
	// by the first byte. Default false.
	ClientPortUnification bool
	// ClientPortListenBacklog (clientPortListenBacklog): connections that the kernel keeps
	// until they are accepted; -1, the default: the system's. Too small: a herd of returning
	// clients is refused; too large costs nothing, the kernel cuts it down.
	ClientPortListenBacklog int
	// ClientTCPKeepAlive (clientTcpKeepAlive): the kernel probes idle connections. Default
	// false: sessions notice a dead client by themselves.
	ClientTCPKeepAlive bool
	// Advertised (zkd.advertisedAddress): where clients reach this server, as shown in
	// /zookeeper/config. Default zero: what the server.N line says. A wrong address cuts off
	// every Curator client, which replaces its connection string with it.
	Advertised HostPort

	// DataDir (dataDir): snapshots, myid, identity, and the log unless DataLogDir says
	// otherwise; relative to the process directory. Default ./zkd-data without a file.
	DataDir string
	// DataLogDir (dataLogDir): the log. Default DataDir. A disk of its own keeps writes fast
	// while a snapshot is written.
	DataLogDir string
	// DataDirAutocreate (datadir.autocreate): missing folders are created. Default true.
	DataDirAutocreate bool
	// DBAutocreate (db.autocreate): an empty folder is a new database even without a file
	// named initialize in it. Default true. True on a disk that was not mounted: the server
	// comes up empty.
	DBAutocreate bool
	// LogStore (zkd.logStore): what holds the log. Default segment.
	LogStore LogStore
	// SnapCount (snapCount): transactions after which a snapshot is taken; 0, the default:
	// SnapshotBytes alone decides. Too small: the server does little else; too large: the
	// log is long, and so is a restart.
	SnapCount int
	// SnapshotBytes (zkd.snapshotBytes, else snapSizeLimitInKb): bytes of log after which a
	// snapshot is taken; 0: SnapCount alone decides. Default 128 MiB. Too small and too
	// large as SnapCount; the disk must hold it several times over.
	SnapshotBytes int64
	// SnapRetainCount (autopurge.snapRetainCount): snapshots kept when purging, with the log
	// from the oldest of them on. Default 3, which is also the least.
	SnapRetainCount int
	// PurgeIntervalMs (autopurge.purgeInterval): how often older snapshots and logs are
	// removed; 0: never, until the disk is full; -1, the default: after every snapshot.
	PurgeIntervalMs int64
	// FsyncWarningMs (fsync.warningthresholdms): a longer sync is logged. Default 1000. Too
	// small fills the log; too large hides a failing disk.
	FsyncWarningMs int64
	// SlowDiskMs (zkd.slowDiskMs): a leader whose syncs take so long for SlowDiskForMs, while
	// another server's are much shorter, hands over. Default 500; 0 never. Too small: hand-overs
	// that cost more than the disk does; too large: all wait for the slow one.
	SlowDiskMs int64
	// SlowDiskForMs (zkd.slowDiskForMs): see SlowDiskMs. Default 5000.
	SlowDiskForMs int64

	// TickTimeMs (tickTime): unit of the limits below and of session expiry. Default 2000
	// without a file, 3000 with one, as ZooKeeper. Too small: sessions expire when the
	// machine pauses; too large: ephemeral nodes outlive their clients for long.
	TickTimeMs int32
	// MinSessionTimeoutMs and MaxSessionTimeoutMs (minSessionTimeout, maxSessionTimeout):
	// what a client asks for is brought into this range. Default 2 and 20 ticks. A minimum
	// below a tick loses sessions that live; a large maximum keeps the nodes of dead clients.
	MinSessionTimeoutMs, MaxSessionTimeoutMs int32
	// InitLimit (initLimit): ticks that a server may take to connect and catch up. Default
	// 10. Too small: a server with much data never joins.
	InitLimit int
	// SyncLimit (syncLimit): ticks that a server may be without a leader before it closes
	// its clients' connections. Default 5. Too small: connections are cut by an election;
	// too large: clients wait at a server that is cut off.
	SyncLimit int
	// HandshakeTimeoutMs (zkd.handshakeTimeoutMs, nio.sessionlessCnxnTimeout): a connection
	// without a session is closed after it. Default 10000. Too small: far clients with TLS
	// never get in; too large: idle sockets use up the connection limits.
	HandshakeTimeoutMs int
	// DrainTimeoutMs (zkd.drainTimeoutMs): how long a stop waits for requests under way.
	// Default 5000; 0: not at all, their clients see a lost connection.
	DrainTimeoutMs int

	// MaxClientCnxns (maxClientCnxns): connections per client address; 0: unlimited.
	// Default 60. Too small: clients behind one NAT address are turned away.
	MaxClientCnxns int
	// MaxCnxns (maxCnxns): connections in all; 0, the default: as many as open files allow.
	MaxCnxns int
	// GlobalOutstandingLimit (globalOutstandingLimit): requests under way on this server
	// beyond which a connection that waits for an answer is not read. Default 1000. Too small
	// slows a few busy clients; too large lets a burst queue up.
	GlobalOutstandingLimit int
	// JuteMaxBuffer (jute.maxbuffer): bytes of the largest request frame. Default 0xfffff.
	// Too small: large nodes cannot be written; too large: nodes that clients with the
	// default cannot read.
	JuteMaxBuffer int
	// JuteMaxBufferExtra (jute.maxbuffer.extrasize): bytes that a single record may have
	// beyond JuteMaxBuffer. Default JuteMaxBuffer.
	JuteMaxBufferExtra int
	// MaxConnBufferBytes (zkd.maxConnBufferBytes): bytes of requests that one connection may
	// have under way; beyond it the connection is not read. Default 4 MiB. At least
	// JuteMaxBuffer, else the largest request could never be read.
	MaxConnBufferBytes int64
	// MaxConnQueueBytes (zkd.maxConnQueueBytes): bytes that may wait for a client that does
	// not read; beyond it the connection is cut. Default 16 MiB. Too small cuts off clients
	// that list large nodes; too large times many slow clients is the server's memory.
	MaxConnQueueBytes int64
	// MaxTotalBufferBytes (zkd.maxTotalBufferBytes): bytes of requests under way of all
	// connections; beyond it none is read until some are answered. Default 256 MiB. Too
	// small slows everybody; too large lets clients use up the memory.
	MaxTotalBufferBytes int64
	// MaxConnRequests (zkd.maxConnRequests): requests that one connection may have under
	// way; beyond it the connection is not read. Default 4096.
	MaxConnRequests int
	// MaxConnWatches (zkd.maxConnWatches): watches of one connection, a path of more than 256
	// bytes counting as several; 0: unlimited. Default 1,000,000, some 100 MB of memory. Too small breaks clients that watch large trees.
	MaxConnWatches int
	// MaxMultiOps (zkd.maxMultiOps): operations in one multi. Default 65,536, which is also
	// the most: every other client waits while one multi is applied.
	MaxMultiOps int
	// Throttle bounds how fast sessions are made.
	Throttle ConnectionThrottle
	// FourLetterWords (4lw.commands.whitelist): the allowed four-letter words, sorted, "*"
	// replaced by all. Default srvr, which is always there; isro with ReadOnlyMode.
	FourLetterWords []string

	// ReadOnlyMode (readonlymode.enabled): a server without a leader answers reads of
	// clients that accept it. Default false.
	ReadOnlyMode bool
	// LocalSessionsEnabled (localSessionsEnabled): read-only mode may give out sessions that
	// only this server knows. Default false. Kept.
	LocalSessionsEnabled bool
	// ReconfigEnabled (reconfigEnabled): the reconfig request is allowed. Default false.
	ReconfigEnabled bool
	// ExtendedTypesEnabled (extendedTypesEnabled): TTL nodes are allowed, and server numbers
	// end at 254. Default true, unlike ZooKeeper.
	ExtendedTypesEnabled bool
	// EnforceQuota (enforceQuota): hard quotas are enforced. Default false.
	EnforceQuota bool
	// SkipACL (skipACL=yes): no permission is checked. Default false.
	SkipACL bool
	// EnableEagerACLCheck (enableEagerACLCheck): the server that receives a write checks it
	// too, before the leader does. Default false.
	EnableEagerACLCheck bool

	// ContainerCheckIntervalMs (znode.container.checkIntervalMs): time between two looks for
	// containers and TTL nodes that are due. Default 60000. Too large: they live longer.
	ContainerCheckIntervalMs int64
	// ContainerMaxPerMinute (znode.container.maxPerMinute): such deletions per minute.
	// Default 10000. Too small: they pile up; too large: they get into clients' way.
	ContainerMaxPerMinute int
	// ContainerMaxNeverUsedMs (znode.container.maxNeverUsedIntervalMs): a container that
	// never had a child is due after it; 0, the default: never.
	ContainerMaxNeverUsedMs int64

	// LogLevel (zkd.logLevel): debug, info, warn or error. Default info.
	LogLevel string
	// LogFormat (zkd.logFormat): text or json. Default text.
	LogFormat string
	// LogFile (zkd.logFile): where the log goes; "", the default: standard error.
	LogFile string

	// Audit (audit.enable): changes by clients are written to an audit log. Default false.
	Audit bool
	// AuditFile (zkd.auditFile): where it goes; "", the default: standard output.
	AuditFile string

	// Auth, SASL and TLS: config_auth.go. Cluster: config_cluster.go.
	Auth    Auth
	SASL    SASL
	TLS     TLS // of the secure client port, and of a unified client port
	Cluster Cluster
	Admin   Admin
	Metrics Metrics
}

// A Setting is one key as somebody set it.
type Setting struct {
	Name   string // canonical name: "server.1", never "zookeeper.server.1"
	Value  string // "***" for a secret
	Origin Origin
	Text   Secret // the value also of a secret, for comparing two configurations
}

// A LogStore is what holds the replicated log.
type LogStore string

// The log stores: append-only segments, or a bbolt database.
const (
	LogStoreSegment LogStore = "segment"
	LogStoreBolt    LogStore = "bolt"
)

// ConnectionThrottle is a bucket of tokens: each new or returning session takes one, and
// without one the connection is closed.
type ConnectionThrottle struct {
	// Tokens (connection_throttle_tokens): size of the bucket; 0, the default: no limit. Too
	// small: the clients of a restarted server take long to come back.
	Tokens int
	// FillTimeMs (connection_throttle_fill_time): time between two fillings. Default 1.
	FillTimeMs int
	// FillCount (connection_throttle_fill_count): tokens per filling. Default 1.
	FillCount int
}

// Admin is the HTTP administration server.
type Admin struct {
	// Enabled (admin.enableServer). Default true.
	Enabled bool
	// Address (admin.serverAddress). Default 127.0.0.1, where ZooKeeper takes every address:
	// most commands ask for no password.
	Address string
	// Port (admin.serverPort). Default 8080.
	Port int
	// CommandURL (admin.commandURL): prefix of the paths. Default /commands.
	CommandURL string
	// IdleTimeoutMs (admin.idleTimeout) of a connection. Default 30000.
	IdleTimeoutMs int
	// PortUnification (admin.portUnification): HTTPS on the same port. Default false.
	PortUnification bool
	// ForceHTTPS (admin.forceHttps): nothing but HTTPS. Default false.
	ForceHTTPS bool
	// NeedClientAuth (admin.needClientAuth): who asks shows a certificate, or Token. Default
	// false.
	NeedClientAuth bool
	// Token (zkd.adminTokenFile, else zkd.adminToken): needed for every command; a client
	// certificate does as well. Default none, which is for loopback addresses only: at any
	// other nothing but /livez and /readyz is answered then.
	Token Secret
	// PProf (zkd.pprof): profiles at /debug/pprof/. Default false: they cost CPU time.
	PProf bool
	// RateLimiterIntervalMs (admin.rateLimiterIntervalInMS) between two snapshots, and
	// between two restores. Default 300000. Kept.
	RateLimiterIntervalMs int64
	// SnapshotEnabled (admin.snapshot.enabled): the command snapshot. Default true. Kept.
	SnapshotEnabled bool
	// RestoreEnabled (admin.restore.enabled): the command restore. Default true. Kept.
	RestoreEnabled bool
	// UseXForwardedFor (IPAuthenticationProvider.usexforwardedfor): the scheme ip believes
	// that header, which any client can write. Default false. Kept.
	UseXForwardedFor bool
}

// Metrics is the Prometheus listener.
type Metrics struct {
	// Prometheus is true if metricsProvider.className asks for it. Default false.
	Prometheus bool
	// HTTPHost (metricsProvider.httpHost). Default 0.0.0.0: who names the provider wants it
	// scraped.
	HTTPHost string
	// HTTPPort (metricsProvider.httpPort). Default 7000; 0: none.
	HTTPPort int
	// HTTPSPort (metricsProvider.httpsPort). Default 0: none.
	HTTPSPort int
	// ExportProcessInfo (metricsProvider.exportJvmInfo): metrics of the process itself are
	// shown too. Default true.
	ExportProcessInfo bool
	// TLS (metricsProvider.ssl.*) is for HTTPSPort.
	TLS TLS
}
