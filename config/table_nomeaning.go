package config

// The rows of ZooKeeper's keys that control machinery which zkd does not have. They are
// known so that nobody is told to look for a typing mistake.

// Reasons that several keys share.
const (
	whyGroupCommit = "Writes that wait are stored together at once; there is no delay and no size to choose."
	whyRuntime     = "Go's runtime schedules connections; there are no thread pools or buffers to size."
	whyRaft        = "Servers talk raft over one port, without ZooKeeper's election and learner protocols."
	whyPipeline    = "Requests run in one short pipeline, bounded by the zkd.max* keys."
	whyFormat      = "The log and snapshots are in zkd's own format, which always has it or never needs it."
	whyWatches     = "There is one implementation of watches, which cleans up at once."
	whyJava        = "It is about the Java machine."
	whyKerberos    = "SASL here is DIGEST-MD5; Kerberos is not supported."
	whyPeerTLS     = "Servers prove themselves to each other by certificates, not by SASL."
	whyClient      = "It is for the Java client."
)

func noMeaningKeys() []Key {
	keys := []Key{
		noMeaning("forceSync", KindEnum, "yes", "zkd never answers a write before it is on the disk; only zkd dev does without.").agreeing("yes"),
		noMeaning("preAllocSize", KindInt, "65536", "Segments of the log are 64 MiB, always preallocated."),
		noMeaning("txnLogSizeLimitInKb", KindInt, "-1", "Segments of the log are 64 MiB."),
		noMeaning("commitLogCount", KindInt, "500", "A follower catches up from the log itself."),
		noMeaning("snapshotSizeFactor", KindString, "0.33", "A follower catches up from the log itself."),
		noMeaning("serverCnxnFactory", KindClass, "", "There is one connection layer, which speaks TLS too.").
			agreeing("org.apache.zookeeper.server.NIOServerCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory"),
		noMeaning("electionAlg", KindInt, "3", "Raft elects the leader.").agreeing("3"),
		noMeaning("syncEnabled", KindBool, "true", "Observers always have a log.").agreeing("true").alias("observer.syncEnabled"),
		noMeaning("snapshot.trust.empty", KindBool, "false", "A log always says from which snapshot it goes on; zkd import reads ZooKeeper's files.").agreeing("false"),
		noMeaning("localSessionsUpgradingEnabled", KindBool, "false", "Sessions that can own nodes are always known to every server."),
		noMeaning("emulate353TTLNodes", KindBool, "false", "TTL nodes have the encoding of 3.5.4 and later.").agreeing("false"),
		noMeaning("portUnification", KindBool, "false", "The peer port speaks TLS or plain, never both; to change that, all servers are stopped.").agreeing("false"),
		noMeaning("oraclePath", KindPath, "", "A majority of the servers decides, nobody else."),
		noMeaning("audit.impl.class", KindClass, "", "The audit log is written by zkd itself, in the form of ZooKeeper's loggers; see audit.enable.").
			agreeing("org.apache.zookeeper.audit.Slf4jAuditLogger", "org.apache.zookeeper.audit.Log4jAuditLogger"),
		noMeaning("ssl.sslProvider", KindEnum, "JDK", "TLS is Go's."),
		noMeaning("fips-mode", KindBool, "true", "It picks TLS versions and hashes of the Java machine; see ssl.enabledProtocols."),
		noMeaning("admin.httpVersion", KindInt, "11", "HTTP/1.1 is always spoken."),
	}
	for _, g := range noMeaningGroups {
		for _, row := range g.rows {
			keys = append(keys, noMeaning(row.name, row.kind, row.def, g.why))
		}
	}
	return keys
}

type noMeaningRow struct {
	name string
	kind Kind
	def  string
}

var noMeaningGroups = []struct {
	why  string
	rows []noMeaningRow
}{
	{whyGroupCommit, []noMeaningRow{
		{"flushDelay", KindInt, "0"},
		{"maxWriteQueuePollTime", KindInt, ""},
		{"maxBatchSize", KindInt, "1000"},
	}},
	{whyFormat, []noMeaningRow{
		{"digest.enabled", KindBool, "true"},
		{"closeSessionTxn.enabled", KindBool, "true"},
		{"serializeLastProcessedZxid.enabled", KindBool, "true"},
		{"snapshot.compression.method", KindEnum, ""},
	}},
	{whyWatches, []noMeaningRow{
		{"watchManagerName", KindClass, ""},
		{"watcherCleanThreadsNum", KindInt, "2"},
		{"watcherCleanThreshold", KindInt, "1000"},
		{"watcherCleanIntervalInSeconds", KindInt, "600"},
		{"maxInProcessingDeadWatchers", KindInt, "-1"},
		{"bitHashCacheSize", KindInt, "10"},
	}},
	{whyPipeline, []noMeaningRow{
		{"request_throttle_max_requests", KindInt, "0"},
		{"request_throttle_stall_time", KindInt, "100"},
		{"request_throttle_drop_stale", KindBool, "true"},
		{"request_stale_latency_check", KindBool, "false"},
		{"request_stale_connection_check", KindBool, "true"},
		{"request_throttler.shutdownTimeout", KindInt, "10000"},
		{"throttled_op_wait_time", KindInt, "0"},
		{"largeRequestMaxBytes", KindInt, "104857600"},
		{"largeRequestThreshold", KindInt, "-1"},
		{"connection_throttle_freeze_time", KindInt, "-1"},
		{"connection_throttle_drop_increase", KindString, "0.02"},
		{"connection_throttle_drop_decrease", KindString, "0.002"},
		{"connection_throttle_decrease_ratio", KindString, "0"},
		{"connection_throttle_weight_enabled", KindBool, "false"},
		{"connection_throttle_global_session_weight", KindInt, "3"},
		{"connection_throttle_local_session_weight", KindInt, "1"},
		{"connection_throttle_renew_session_weight", KindInt, "2"},
		{"maxResponseCacheSize", KindInt, "400"},
		{"maxGetChildrenResponseCacheSize", KindInt, "400"},
		{"commitProcessor.numWorkerThreads", KindInt, ""},
		{"commitProcessor.maxReadBatchSize", KindInt, "-1"},
		{"commitProcessor.maxCommitBatchSize", KindInt, "1"},
		{"commitProcessor.shutdownTimeout", KindInt, "5000"},
		{"messageTracker.BufferSize", KindInt, "10"},
		{"messageTracker.Enabled", KindBool, "false"},
		{"pathStats.enabled", KindBool, "false"},
		{"pathStats.slotCapacity", KindInt, "60"},
		{"pathStats.slotDuration", KindInt, "15"},
		{"pathStats.maxDepth", KindInt, "6"},
		{"pathStats.sampleRate", KindString, "0.1"},
		{"pathStats.initialDelay", KindInt, "5"},
		{"pathStats.delay", KindInt, "5"},
		{"pathStats.topPathMax", KindInt, "20"},
	}},
	{whyRuntime, []noMeaningRow{
		{"intBufferStartingSizeBytes", KindInt, "1024"},
		{"nio.numSelectorThreads", KindInt, ""},
		{"nio.numWorkerThreads", KindInt, ""},
		{"nio.directBufferBytes", KindInt, "65536"},
		{"nio.shutdownTimeout", KindInt, "5000"},
		{"netty.server.outstandingHandshake.limit", KindInt, "-1"},
		{"netty.server.earlyDropSecureConnectionHandshakes", KindBool, "false"},
		{"netty.advancedFlowControl.enabled", KindBool, "false"},
		{"metricsProvider.numWorkerThreads", KindInt, "1"},
		{"metricsProvider.maxQueueSize", KindInt, "1000000"},
		{"metricsProvider.workerShutdownTimeoutMs", KindInt, "1000"},
		{"metricsProvider.httpVersion", KindInt, "11"},
	}},
	{whyRaft, []noMeaningRow{
		{"connectToLearnerMasterLimit", KindInt, ""},
		{"observerMasterPort", KindInt, ""},
		{"observerMaster.sizeLimit", KindInt, "33554432"},
		{"observer.reconnectDelayMs", KindInt, "0"},
		{"observer.election.DelayMs", KindInt, "200"},
		{"cnxTimeout", KindInt, "5000"},
		{"quorumCnxnTimeoutMs", KindInt, "-1"},
		{"electionPortBindRetry", KindInt, "3"},
		{"electionPort", KindInt, ""},
		{"tcpKeepAlive", KindBool, "false"},
		{"fastleader.minNotificationInterval", KindInt, "200"},
		{"fastleader.maxNotificationInterval", KindInt, "60000"},
		{"leader.maxConcurrentSnapSyncs", KindInt, "10"},
		{"leader.maxConcurrentDiffSyncs", KindInt, "100"},
		{"leader.maxTimeToWaitForEpoch", KindInt, "-1"},
		{"leader.ackLoggingFrequency", KindInt, "1000"},
		{"leader.closeSocketAsync", KindBool, "false"},
		{"leader.nodelay", KindBool, "true"},
		{"leaderConnectDelayDuringRetryMs", KindInt, "100"},
		{"learner.closeSocketAsync", KindBool, "false"},
		{"learner.asyncSending", KindBool, "false"},
		{"follower.nodelay", KindBool, "true"},
		{"follower.skipLearnerRequestToNextProcessor", KindBool, "false"},
		{"forward_learner_requests_to_commit_processor_disabled", KindBool, "false"},
		{"forceSnapshotSync", KindBool, "false"},
		{"multiAddress.reachabilityCheckTimeoutMs", KindInt, "1000"},
		{"multiAddress.reachabilityCheckEnabled", KindBool, "true"},
	}},
	{whyPeerTLS, []noMeaningRow{
		{"quorum.auth.enableSasl", KindBool, "false"},
		{"quorum.auth.serverRequireSasl", KindBool, "false"},
		{"quorum.auth.learnerRequireSasl", KindBool, "false"},
		{"quorum.auth.server.loginContext", KindString, "QuorumServer"},
		{"quorum.auth.learner.loginContext", KindString, "QuorumLearner"},
		{"quorum.auth.kerberos.servicePrincipal", KindString, "zkquorum/localhost"},
		{"quorum.cnxn.threads.size", KindInt, "20"},
	}},
	{whyKerberos, []noMeaningRow{
		{"kerberos.removeHostFromPrincipal", KindBool, "false"},
		{"kerberos.removeRealmFromPrincipal", KindBool, "false"},
		{"kerberos.canonicalizeHostNames", KindBool, "false"},
		{"kerberos.minReLoginTimeMs", KindInt, "60000"},
		{"kinit", KindPath, "/usr/bin/kinit"},
		{"requireKerberosConfig", KindBool, "false"},
		{"security.auth_to_local", KindString, "DEFAULT"},
		{"server.principal", KindString, ""},
		{"server.realm", KindString, ""},
	}},
	{whyJava, []noMeaningRow{
		{"jvm.pause.monitor", KindBool, "false"},
		{"jvm.pause.info-threshold.ms", KindInt, "1000"},
		{"jvm.pause.warn-threshold.ms", KindInt, "10000"},
		{"jvm.pause.sleep.time.ms", KindInt, "500"},
		{"jmx.log4j.disable", KindBool, "false"},
		{"jmx.log4j.mbean", KindString, ""},
		{"com.sun.net.ssl.checkRevocation", KindBool, "false"},
		{"jdk.tls.rejectClientInitiatedRenegotiation", KindBool, "true"},
	}},
	{whyClient, []noMeaningRow{
		{"client.secure", KindBool, "false"},
		{"clientCnxnSocket", KindClass, ""},
		{"disableAutoWatchReset", KindBool, "false"},
		{"request.timeout", KindInt, "0"},
		{"sasl.client", KindBool, "true"},
		{"sasl.client.allowReverseDnsLookup", KindBool, "false"},
		{"sasl.client.canonicalize.hostname", KindBool, "true"},
		{"sasl.client.username", KindString, "zookeeper"},
		{"sasl.clientconfig", KindString, "Client"},
		{"shuffleDnsResponse", KindBool, "true"},
	}},
}
