package config

// The rows about several servers.

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
			"The peer port speaks TLS with the stores of ssl.quorum.*; zkd.peerTLSDir needs neither."),
	}
	for i := range keys {
		switch keys[i].Name {
		case "group.N", "weight.N", "leaderServes", "multiAddress.enabled":
			keys[i].Status = Kept
		}
	}
	return keys
}
