package config

// Auth is how clients prove who they are, apart from SASL and TLS.
type Auth struct {
	// DigestEnabled (DigestAuthenticationProvider.enabled): the scheme digest exists.
	// Default true.
	DigestEnabled bool
	// DigestAlg (DigestAuthenticationProvider.digestAlg): hash of digest ids, by its Java
	// name. Default SHA1. Any other makes the digest ACLs of older data useless.
	DigestAlg string
	// SuperDigest (DigestAuthenticationProvider.superDigest): user:base64(hash) of the super
	// user. Default none.
	SuperDigest Secret
	// X509SuperUser (X509AuthenticationProvider.superUser): subject of the super user,
	// compared letter by letter with the RFC 2253 form. Default none.
	X509SuperUser string
	// X509Enabled: the scheme x509 exists, because authProvider.N names it or a TLS port is
	// open.
	X509Enabled bool
	// EnsembleEnabled: the scheme ensemble exists, because authProvider.N names it.
	EnsembleEnabled bool
	// EnsembleNames (ensembleAuthName): names that clients may give in the scheme ensemble;
	// with any other the connection is closed. None: every name is accepted.
	EnsembleNames []string
	// EnforceSchemes: a connection needs an id of one of these before any other request is
	// served; nil, the default: it needs none. From sessionRequireClientSASLAuth, else
	// enforce.auth.enabled and enforce.auth.schemes.
	EnforceSchemes []string
}

// SASL is authentication by opcode 102 with DIGEST-MD5.
type SASL struct {
	// Enabled: the JAAS file has the section, so the exchange works.
	Enabled bool
	// Provider: authProvider.N names the SASL provider, so ACLs may use the scheme sasl.
	Provider bool
	// JAASFile (java.security.auth.login.config) has the users in Section (sasl.serverconfig,
	// default Server).
	JAASFile, Section string
	// Users are names and passwords: user_<name>="<password>" in the section; for super,
	// SASLAuthenticationProvider.superPassword if that is set.
	Users map[string]Secret
	// SuperUsers (superUser, superUser.X): names that no ACL holds up.
	SuperUsers []string
	// LetAnyUserDo (letAnySaslUserDoX): an ACL entry with this name is for every sasl user.
	LetAnyUserDo string
	// AllowFailedClients (allowSaslFailedClients): who fails stays connected, without an id.
	// Default false.
	AllowFailedClients bool
}

// TLS is the server's side of a TLS port. It has the names of files, internal/tlsconf reads
// them.
type TLS struct {
	// KeyStore (ssl.keyStore.*): this server's key and certificate chain.
	KeyStore Store
	// TrustStore (ssl.trustStore.*): who may sign the certificates of clients.
	TrustStore Store
	// ClientAuth (ssl.clientAuth): whether clients show a certificate. Default need.
	ClientAuth ClientAuth
	// MinVersion and MaxVersion (ssl.enabledProtocols, ssl.protocol, ssl.ciphersuites), as
	// in crypto/tls. Default 1.2 and 1.3; there is nothing below.
	MinVersion, MaxVersion uint16
	// CipherSuites (ssl.ciphersuites) of TLS 1.2; nil, the default: Go's choice. Those of
	// TLS 1.3 cannot be chosen.
	CipherSuites []uint16
	// Reload (client.certReload): changed files are noticed at the next handshake. Default
	// true, unlike ZooKeeper; false: only on demand.
	Reload bool
	// DetectionTimeoutMs (ssl.handshakeDetectionTimeoutMillis): how long a unified port
	// waits for the byte that tells TLS from plain. Default 5000.
	DetectionTimeoutMs int
	// VerifyClientHost (ssl.clientHostnameVerification, unless ssl.hostnameVerification is
	// false): a client's certificate must be for the address it comes from. Default false.
	VerifyClientHost bool
	// ReverseDNS (ssl.allowReverseDnsLookup): or for a name of that address. Default false.
	ReverseDNS bool
}

// A Store is a file of keys or certificates.
type Store struct {
	Location string    // path; "": there is none
	Type     StoreType // "" only without a Location
	// Password opens it; the text of the file PasswordPath, if that is set, comes first.
	Password     Secret
	PasswordPath string
}

// A StoreType is the format of a Store: its type key, else its file extension.
type StoreType string

// The formats. Java reads a PKCS12 file that is called JKS, so look into the file, too.
const (
	StorePEM    StoreType = "PEM"
	StorePKCS12 StoreType = "PKCS12"
	StoreJKS    StoreType = "JKS"
)

// ClientAuth says whether clients show a certificate.
type ClientAuth string

// The values of ssl.clientAuth: not asked for; checked if shown; demanded.
const (
	ClientAuthNone ClientAuth = "none"
	ClientAuthWant ClientAuth = "want"
	ClientAuthNeed ClientAuth = "need"
)
