package config

//go:generate go test -run TestReferenceIsUpToDate -rewrite .

import "strings"

// What docs/configuration.md says of a key beside what its row in the table does.

// unitOf is the unit of a number, as the first words of Doc have it; "" is a plain number.
func unitOf(k *Key) string {
	if k.Kind != KindInt {
		return ""
	}
	for _, u := range []struct{ words, unit string }{
		{"Milliseconds", "ms"},
		{"Shortest session timeout", "ms"},
		{"Longest session timeout", "ms"},
		{"Ticks", "ticks"},
		{"Bytes", "bytes"},
		{"As zkd.snapshotBytes, in KiB", "KiB"},
	} {
		if strings.HasPrefix(k.Doc, u.words) {
			return u.unit
		}
	}
	return ""
}

// sinceOf is where a key comes from: zkd, or the release of ZooKeeper that brought it; just
// ZooKeeper where the key is older than 3.4 or its documentation names no release.
func sinceOf(k *Key) string {
	if strings.HasPrefix(k.Name, "zkd.") {
		return "zkd"
	}
	if since := sinceByName[k.Name]; since != "" {
		return "ZooKeeper " + since
	}
	for _, s := range sinceByPrefix {
		if strings.HasPrefix(k.Name, s.prefix) {
			return "ZooKeeper " + s.since
		}
	}
	return "ZooKeeper"
}

var sinceByPrefix = []struct{ prefix, since string }{
	{"admin.", "3.5.0"},
	{"metricsProvider.", "3.6.0"},
	{"ssl.quorum.", "3.5.5"},
	{"ssl.", "3.5.5"},
	{"connection_throttle_", "3.6.0"},
	{"request_throttle", "3.6.0"},
	{"request_stale_", "3.6.0"},
	{"largeRequest", "3.6.0"},
	{"quorum.auth.", "3.4.10"},
	{"multiAddress.", "3.6.0"},
	{"audit.", "3.6.0"},
	{"localSessions", "3.5.0"},
	{"superUser", "3.7.0"},
}

var sinceByName = map[string]string{
	"4lw.commands.whitelist":                    "3.4.10, 3.5.3",
	"DigestAuthenticationProvider.enabled":      "3.7.0",
	"IPAuthenticationProvider.usexforwardedfor": "3.9.3",
	"admin.forceHttps":                          "3.7.1",
	"admin.needClientAuth":                      "3.9.0",
	"admin.portUnification":                     "3.6.0",
	"admin.rateLimiterIntervalInMS":             "3.9.0",
	"admin.restore.enabled":                     "3.9.0",
	"admin.snapshot.enabled":                    "3.9.0",
	"autopurge.purgeInterval":                   "3.4.0",
	"autopurge.snapRetainCount":                 "3.4.0",
	"client.certReload":                         "3.7.2, 3.8.1",
	"clientPortListenBacklog":                   "3.4.14, 3.5.5",
	"closeSessionTxn.enabled":                   "3.6.0",
	"connectToLearnerMasterLimit":               "3.6.0",
	"db.autocreate":                             "3.6.0",
	"digest.enabled":                            "3.6.0",
	"dynamicConfigFile":                         "3.5.0",
	"enableEagerACLCheck":                       "3.6.0",
	"enforce.auth.enabled":                      "3.7.0",
	"enforce.auth.schemes":                      "3.7.0",
	"enforceQuota":                              "3.7.0",
	"extendedTypesEnabled":                      "3.5.4",
	"flushDelay":                                "3.6.0",
	"maxBatchSize":                              "3.6.0",
	"maxCnxns":                                  "3.6.0",
	"maxWriteQueuePollTime":                     "3.6.0",
	"observerMasterPort":                        "3.6.0",
	"oraclePath":                                "3.8.0",
	"readonlymode.enabled":                      "3.4.0",
	"reconfigEnabled":                           "3.5.3",
	"secureClientPort":                          "3.5.1",
	"secureClientPortAddress":                   "3.5.1",
	"serializeLastProcessedZxid.enabled":        "3.9.0",
	"sessionRequireClientSASLAuth":              "3.6.0",
	"snapSizeLimitInKb":                         "3.6.0",
	"snapshot.compression.method":               "3.6.0",
	"ssl.allowReverseDnsLookup":                 "3.9.5",
	"ssl.clientHostnameVerification":            "3.9.4",
	"ssl.quorum.allowReverseDnsLookup":          "3.9.5",
	"ssl.quorum.clientHostnameVerification":     "3.9.4",
	"ssl.keyStore.passwordPath":                 "3.8.0",
	"ssl.trustStore.passwordPath":               "3.8.0",
	"ssl.quorum.keyStore.passwordPath":          "3.8.0",
	"ssl.quorum.trustStore.passwordPath":        "3.8.0",
	"sslQuorum":                                 "3.5.5",
	"sslQuorumReloadCertFiles":                  "3.5.5",
	"portUnification":                           "3.5.5",
	"client.portUnification":                    "3.5.5",
	"standaloneEnabled":                         "3.5.0",
	"throttled_op_wait_time":                    "3.7.0",
	"znode.container.checkIntervalMs":           "3.5.1",
	"znode.container.maxPerMinute":              "3.5.1",
	"znode.container.maxNeverUsedIntervalMs":    "3.6.0",
	"DigestAuthenticationProvider.superDigest":  "3.2",
	"metricsProvider.httpsPort":                 "3.10.0",
	"minSessionTimeout":                         "3.3.0",
	"maxSessionTimeout":                         "3.3.0",
	"clientPortAddress":                         "3.3.0",
	"fsync.warningthresholdms":                  "3.3.4",
	"syncEnabled":                               "3.4.6",
	"watchManagerName":                          "3.6.0",
	"emulate353TTLNodes":                        "3.5.4",
	"sasl.serverconfig":                         "3.4.0",
	"java.security.auth.login.config":           "3.4.0",
	"SASLAuthenticationProvider.superPassword":  "3.4.0",
	"snapshot.trust.empty":                      "3.5.6",
	"jute.maxbuffer.extrasize":                  "3.5.7",
	"ensembleAuthName":                          "3.6.0",
}
