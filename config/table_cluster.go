package config

// The rows about several servers, the admin server and metrics.

func clusterKeys() []Key {
	keys := []Key{
		family("server.N", KindServer, "host:port:electionPort[:role][;[host:]clientPort][;[host:]secureClientPort]",
			"One server; N is its number, 1 to 255. Several peer addresses are joined by |.", addServer),
		family("group.N", KindString, "server numbers joined by :",
			"Servers that make up a group. Read and checked; every server has one vote here.", addGroup),
		family("weight.N", KindInt, "0 or more",
			"Votes of a server in its group. Read and checked; every server has one vote here.", addWeight),
		path("dynamicConfigFile", "", func(c *Config) *string { return &c.Cluster.DynamicFile },
			"File with the server, group and weight lines, which must not be here then.").required(),
		later("peerType", KindEnum, "participant or observer", "",
			"What this server is. The server line decides; a different value here is warned about."),
		later("standaloneEnabled", KindBool, "", "true",
			"A single server line is ignored. false: it makes an ensemble of one, which can grow."),
		boolean("reconfigEnabled", "false", func(c *Config) *bool { return &c.ReconfigEnabled },
			"The reconfig request is allowed. The configuration file is never rewritten."),
		yesNo("leaderServes", "yes", func(c *Config) *bool { return &c.Cluster.LeaderServes },
			"no: the leader takes no clients."),
		boolean("quorumListenOnAllIPs", "false", func(c *Config) *bool { return &c.Cluster.ListenOnAllIPs },
			"The peer port is bound everywhere, not only to the addresses of the server line."),
		later("multiAddress.enabled", KindBool, "", "false",
			"Server lines may have several addresses."),
		boolean("sslQuorum", "false", func(c *Config) *bool { return &c.Cluster.SSLQuorum },
			"TLS between servers. Here it is the rule anyway unless zkd.peerInsecure allows otherwise."),
		boolean("portUnification", "false", func(c *Config) *bool { return &c.Cluster.PortUnification },
			"The peer port takes TLS and plain."),
	}
	for i := range keys {
		keys[i].Status = Kept
	}
	return keys
}

func adminKeys() []Key {
	keys := []Key{
		boolean("admin.enableServer", "true", func(c *Config) *bool { return &c.Admin.Enabled },
			"The HTTP administration server runs."),
		address("admin.serverAddress", "127.0.0.1", func(c *Config) *string { return &c.Admin.Address },
			"Address that it is bound to (ZooKeeper: 0.0.0.0).").required(),
		integer("admin.serverPort", "8080", 0, maxPort, func(c *Config) *int { return &c.Admin.Port },
			"Its port; 0: any free one."),
		text("admin.commandURL", "/commands", func(c *Config) *string { return &c.Admin.CommandURL },
			"Prefix of its paths.").required(),
		integer("admin.idleTimeout", "30000", 0, anyInt, func(c *Config) *int { return &c.Admin.IdleTimeoutMs },
			"Milliseconds after which an idle connection is closed; 0: never."),
		boolean("admin.portUnification", "false", func(c *Config) *bool { return &c.Admin.PortUnification },
			"HTTPS on the same port, with the key and trust store of ssl.quorum.*."),
		boolean("admin.forceHttps", "false", func(c *Config) *bool { return &c.Admin.ForceHTTPS },
			"Nothing but HTTPS."),
		boolean("admin.needClientAuth", "false", func(c *Config) *bool { return &c.Admin.NeedClientAuth },
			"HTTPS clients must show a certificate."),
		integer("admin.rateLimiterIntervalInMS", "300000", 0, anyInt, func(c *Config) *int64 { return &c.Admin.RateLimiterIntervalMs },
			"Milliseconds between two snapshots, and between two restores."),
		boolean("admin.snapshot.enabled", "true", func(c *Config) *bool { return &c.Admin.SnapshotEnabled },
			"The command snapshot exists."),
		boolean("admin.restore.enabled", "true", func(c *Config) *bool { return &c.Admin.RestoreEnabled },
			"The command restore exists."),
		boolean("IPAuthenticationProvider.usexforwardedfor", "false", func(c *Config) *bool { return &c.Admin.UseXForwardedFor },
			"The scheme ip believes the header X-Forwarded-For, which any client can write."),
	}
	for i := range keys {
		keys[i].Status = Kept
	}
	return keys
}

func metricsKeys() []Key {
	const prefix = "metricsProvider."
	keys := []Key{
		{
			Name: prefix + "className", Kind: KindClass, Default: defaultProvider, Doc: "Who gets the metrics.",
			Allowed: alternatives([]string{defaultProvider, nullProvider, prometheusProvider}), set: setMetricsProvider,
		},
		address(prefix+"httpHost", "0.0.0.0", func(c *Config) *string { return &c.Metrics.HTTPHost },
			"Address that /metrics is served at.").required(),
		integer(prefix+"httpPort", "7000", 0, maxPort, func(c *Config) *int { return &c.Metrics.HTTPPort },
			"Port that /metrics is served at; 0: none."),
		integer(prefix+"httpsPort", "0", 0, maxPort, func(c *Config) *int { return &c.Metrics.HTTPSPort },
			"TLS port that /metrics is served at; 0: none."),
		boolean(prefix+"exportJvmInfo", "true", func(c *Config) *bool { return &c.Metrics.ExportProcessInfo },
			"Metrics of the process are shown too."),
		later(prefix+"ssl.need.client.auth", KindBool, "", "true", "Clients of the TLS port must show a certificate."),
		later(prefix+"ssl.want.client.auth", KindBool, "", "true", "Clients of the TLS port are asked for a certificate."),
	}
	field := func(c *Config) *TLS { return &c.Metrics.TLS }
	keys = append(keys, storeKeys(prefix+"ssl.keyStore.", func(c *Config) *Store { return &field(c).KeyStore })...)
	keys = append(keys, storeKeys(prefix+"ssl.trustStore.", func(c *Config) *Store { return &field(c).TrustStore })...)
	keys = append(keys, versionKeys(prefix+"ssl.")...)
	for i := range keys {
		keys[i].Status = Kept
	}
	return keys
}

// The metrics providers that ZooKeeper comes with.
const (
	defaultProvider    = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"
	nullProvider       = "org.apache.zookeeper.metrics.impl.NullMetricsProvider"
	prometheusProvider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
)

// setMetricsProvider lets an unknown class pass: without it metrics are missing, and nothing
// else.
func setMetricsProvider(b *builder, v value) error {
	switch v.text {
	case prometheusProvider:
		b.cfg.Metrics.Prometheus = true
	case defaultProvider, nullProvider, "":
		b.cfg.Metrics.Prometheus = false
	default:
		b.warn(v.origin, v.written, "zkd cannot load Java classes, so these metrics go nowhere; known: "+prometheusProvider)
	}
	return nil
}
