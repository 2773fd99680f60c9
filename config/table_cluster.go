package config

// The rows about several servers.

func clusterKeys() []Key {
	return []Key{
		family("server.N", KindServer, "host:port:electionPort[:role][;[host:]clientPort][;[host:]secureClientPort]",
			"One server; N is its number, 1 to 255. Several peer addresses are joined by |. 0.0.0.0 in a server's own line says to listen everywhere; the lines of the others say where it is.", addServer),
		family("group.N", KindString, "server numbers joined by :",
			"Servers that make up a group. Quorums that are not the majorities are refused: every voter counts once.", addGroup),
		family("weight.N", KindInt, "0 or more",
			"Weight of a server in its group; it needs group.N lines. 0: no vote, an observer. Other weights must be all the same.", addWeight),
		path("dynamicConfigFile", "", func(c *Config) *string { return &c.Cluster.DynamicFile },
			"File with the server, group and weight lines, which must not be here then.").required(),
		later("peerType", KindEnum, "participant or observer", "",
			"What this server is. The server line decides; a different value here is warned about."),
		later("standaloneEnabled", KindBool, "", "true",
			"A single server line is ignored. false: it makes an ensemble of one, which can grow."),
		boolean("reconfigEnabled", "false", func(c *Config) *bool { return &c.ReconfigEnabled },
			"The reconfig request is allowed. The configuration file is never rewritten."),
		yesNo("leaderServes", "yes", func(c *Config) *bool { return &c.Cluster.LeaderServes },
			"no: the leader of a cluster takes no clients, and sends those that it has to other servers, while there are some."),
		boolean("quorumListenOnAllIPs", "false", func(c *Config) *bool { return &c.Cluster.ListenOnAllIPs },
			"The peer port is bound everywhere, not only to the addresses of the server line."),
		later("multiAddress.enabled", KindBool, "", "false",
			"Server lines may have several addresses, joined by |: all are listened at, and dialed in turn."),
		boolean("sslQuorum", "false", func(c *Config) *bool { return &c.Cluster.SSLQuorum },
			"The peer port speaks TLS with the stores of ssl.quorum.*; zkd.peerTLSDir needs neither."),
	}
}
