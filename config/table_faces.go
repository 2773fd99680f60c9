package config

// The rows about the ports for operators: the admin server and metrics.

func adminKeys() []Key {
	return []Key{
		boolean("admin.enableServer", "true", func(c *Config) *bool { return &c.Admin.Enabled },
			"The HTTP administration server runs."),
		address("admin.serverAddress", "127.0.0.1", func(c *Config) *string { return &c.Admin.Address },
			"Address that it is bound to (ZooKeeper: 0.0.0.0). Whoever reaches it on loopback may ask everything; any other address needs zkd.adminToken or a client certificate.").required(),
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
			"Who asks must show a client certificate, or zkd.adminToken."),
		integer("admin.rateLimiterIntervalInMS", "300000", 0, anyInt, func(c *Config) *int64 { return &c.Admin.RateLimiterIntervalMs },
			"Milliseconds between two snapshots, and between two restores."),
		boolean("admin.snapshot.enabled", "true", func(c *Config) *bool { return &c.Admin.SnapshotEnabled },
			"The command snapshot exists."),
		boolean("admin.restore.enabled", "true", func(c *Config) *bool { return &c.Admin.RestoreEnabled },
			"The command restore exists."),
		boolean("IPAuthenticationProvider.usexforwardedfor", "false", func(c *Config) *bool { return &c.Admin.UseXForwardedFor },
			"The scheme ip believes the header X-Forwarded-For, which any client can write.").kept(),
		secret("zkd.adminToken", func(c *Config) *Secret { return &c.Admin.Token },
			"Needed for every admin command, as Authorization: Bearer TOKEN; 16 characters or more."),
		later("zkd.adminTokenFile", KindPath, "", "",
			"File with that token; comes before the token itself.").required(),
		boolean("zkd.pprof", "false", func(c *Config) *bool { return &c.Admin.PProf },
			"Profiles of the process at /debug/pprof/ of the admin server."),
	}
}

func metricsKeys() []Key {
	const prefix = "metricsProvider."
	keys := []Key{
		{
			Name: prefix + "className", Kind: KindClass, Default: defaultProvider, Doc: "Who gets the metrics.",
			Allowed: alternatives([]string{defaultProvider, nullProvider, prometheusProvider}), Status: Honoured, set: setMetricsProvider,
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
	return append(keys, versionKeys(prefix+"ssl.")...)
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
