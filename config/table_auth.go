package config

// The rows about who may do what, and TLS.

func authKeys() []Key {
	return []Key{
		yesNo("skipACL", "no", func(c *Config) *bool { return &c.SkipACL },
			"yes: no permission is checked."),
		boolean("enableEagerACLCheck", "false", func(c *Config) *bool { return &c.EnableEagerACLCheck },
			"Writes are also checked by the server that receives them; on a single node nobody else checks.").kept(),
		family("authProvider.N", KindClass, "", "Authentication provider; N is any word.", addAuthProvider).required(),
		boolean("DigestAuthenticationProvider.enabled", "true", func(c *Config) *bool { return &c.Auth.DigestEnabled },
			"The scheme digest exists."),
		enum("DigestAuthenticationProvider.digestAlg", "SHA1", digestAlgorithms, func(c *Config) *string { return &c.Auth.DigestAlg },
			"Hash of digest ids. Any but SHA1 makes the digest ACLs of older data useless."),
		secret("DigestAuthenticationProvider.superDigest", func(c *Config) *Secret { return &c.Auth.SuperDigest },
			"user:base64(hash) of the super user."),
		text("X509AuthenticationProvider.superUser", "", func(c *Config) *string { return &c.Auth.X509SuperUser },
			"Certificate subject of the super user, as RFC 2253 writes it: CN=admin,O=acme."),
		later("ensembleAuthName", KindList, "", "",
			"Names that clients may give in the scheme ensemble; any without it."),
		later("sessionRequireClientSASLAuth", KindBool, "", "false",
			"Short for enforce.auth.enabled=true and enforce.auth.schemes=sasl."),
		later("enforce.auth.enabled", KindBool, "", "false",
			"A connection needs an id of one of enforce.auth.schemes before any other request."),
		later("enforce.auth.schemes", KindList, "ip, digest, sasl, x509", "",
			"The schemes; each must exist on this server."),
		path("java.security.auth.login.config", "", func(c *Config) *string { return &c.SASL.JAASFile },
			"JAAS file with the users of SASL."),
		text("sasl.serverconfig", "Server", func(c *Config) *string { return &c.SASL.Section },
			"Section of the JAAS file.").required(),
		later("SASLAuthenticationProvider.superPassword", KindSecret, "", "",
			"Password of the SASL user super, instead of the one in the JAAS file."),
		later("superUser", KindString, "", "", "SASL user that no ACL holds up."),
		family("superUser.X", KindString, "", "A further one; X is any word.", nil),
		text("letAnySaslUserDoX", "", func(c *Config) *string { return &c.SASL.LetAnyUserDo },
			"An ACL entry with this id is for every SASL user."),
		boolean("allowSaslFailedClients", "false", func(c *Config) *bool { return &c.SASL.AllowFailedClients },
			"Who fails to authenticate with SASL stays connected, without an id."),
	}
}

// digestAlgorithms are Java's names of the hashes that server/acl has.
var digestAlgorithms = []string{
	"SHA1", "SHA-1", "SHA", "MD5", "SHA-224", "SHA-256", "SHA-384", "SHA-512", "SHA-512/224", "SHA-512/256",
	"SHA3-224", "SHA3-256", "SHA3-384", "SHA3-512",
}

func tlsKeys() []Key {
	keys := sideKeys("ssl.", func(c *Config) *TLS { return &c.TLS })
	return append(keys,
		boolean("client.certReload", "true", func(c *Config) *bool { return &c.TLS.Reload },
			"Changed key and trust stores are noticed at the next handshake (ZooKeeper: false)."),
		later("ssl.authProvider", KindEnum, "x509", "x509",
			"Scheme of certificate ids."),
	)
}

func quorumTLSKeys() []Key {
	keys := sideKeys("ssl.quorum.", func(c *Config) *TLS { return &c.Cluster.TLS })
	keys = append(keys, boolean("sslQuorumReloadCertFiles", "true", func(c *Config) *bool { return &c.Cluster.TLS.Reload },
		"Changed key and trust stores are noticed at the next handshake (ZooKeeper: false)."))
	return keys
}

// sideKeys are the keys that exist for clients (ssl.) and for servers (ssl.quorum.).
func sideKeys(prefix string, field func(*Config) *TLS) []Key {
	keys := storeKeys(prefix+"keyStore.", func(c *Config) *Store { return &field(c).KeyStore })
	keys = append(keys, storeKeys(prefix+"trustStore.", func(c *Config) *Store { return &field(c).TrustStore })...)
	keys = append(keys, versionKeys(prefix)...)
	return append(keys,
		enum(prefix+"clientAuth", "need", []string{"none", "want", "need"}, func(c *Config) *ClientAuth { return &field(c).ClientAuth },
			"Whether the other side shows a certificate: not asked, asked, or required."),
		integer(prefix+"handshakeDetectionTimeoutMillis", "5000", 1, anyInt, func(c *Config) *int { return &field(c).DetectionTimeoutMs },
			"Milliseconds that a unified port waits for the byte that tells TLS from plain."),
		later(prefix+"hostnameVerification", KindBool, "", "true",
			"false switches clientHostnameVerification off, too."),
		later(prefix+"clientHostnameVerification", KindBool, "", "false",
			"A certificate must be for the address that it comes from."),
		boolean(prefix+"allowReverseDnsLookup", "false", func(c *Config) *bool { return &field(c).ReverseDNS },
			"Or for a name of that address."),
		later(prefix+"crl", KindBool, "false", "false",
			"Revocation lists. zkd checks none, so true stops the start."),
		later(prefix+"ocsp", KindBool, "false", "false",
			"Revocation by OCSP. zkd does not ask, so true stops the start."),
		noMeaning(prefix+"context.supplier.class", KindClass, "",
			"zkd cannot load Java classes; keys come from the key store."),
	)
}

func storeKeys(prefix string, field func(*Config) *Store) []Key {
	return []Key{
		path(prefix+"location", "", func(c *Config) *string { return &field(c).Location },
			"File of keys or certificates."),
		secret(prefix+"password", func(c *Config) *Secret { return &field(c).Password },
			"Its password."),
		path(prefix+"passwordPath", "", func(c *Config) *string { return &field(c).PasswordPath },
			"File with its password; comes before the password itself."),
		later(prefix+"type", KindEnum, "JKS, PEM or PKCS12", "",
			"Its format; the file extension decides without it."),
	}
}

func versionKeys(prefix string) []Key {
	return []Key{
		later(prefix+"protocol", KindEnum, "TLS, TLSv1.2 or TLSv1.3", "",
			"Highest TLS version, unless enabledProtocols is set."),
		later(prefix+"enabledProtocols", KindList, "TLSv1.2, TLSv1.3", "",
			"TLS versions. Older ones are left out; both without it."),
		later(prefix+"ciphersuites", KindList, "", "",
			"Cipher suites by their IANA names; Go's choice without it."),
	}
}
