package acl

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"strings"
)

// KnownDigest says whether DigestID can use the algorithm. The names are Java's
// (DigestAuthenticationProvider.digestAlg); empty means SHA1.
func KnownDigest(alg string) bool {
	_, ok := digestSum(alg, nil)
	return ok
}

// DigestID is the name in the scheme digest of one who knows userPassword, "user:password":
// the user, a colon, and the hash of the whole text in base64. Text without a colon is user
// and password at once. The algorithm must be a KnownDigest: configuration is checked at
// the start.
func DigestID(alg, userPassword string) string {
	sum, ok := digestSum(alg, []byte(userPassword))
	if !ok {
		panic(fmt.Sprintf("acl: digest algorithm %q is unknown", alg))
	}
	user, _, _ := strings.Cut(userPassword, ":")
	return user + ":" + base64.StdEncoding.EncodeToString(sum)
}

// digestSum hashes b. The weak algorithms are what deployed lists contain.
func digestSum(alg string, b []byte) (sum []byte, ok bool) {
	switch strings.ToUpper(alg) {
	case "", "SHA1", "SHA-1", "SHA":
		h := sha1.Sum(b)
		return h[:], true
	case "MD5":
		h := md5.Sum(b)
		return h[:], true
	case "SHA-224":
		h := sha256.Sum224(b)
		return h[:], true
	case "SHA-256":
		h := sha256.Sum256(b)
		return h[:], true
	case "SHA-384":
		h := sha512.Sum384(b)
		return h[:], true
	case "SHA-512":
		h := sha512.Sum512(b)
		return h[:], true
	case "SHA-512/224":
		h := sha512.Sum512_224(b)
		return h[:], true
	case "SHA-512/256":
		h := sha512.Sum512_256(b)
		return h[:], true
	}
	return digestSHA3(alg, b)
}

func digestSHA3(alg string, b []byte) (sum []byte, ok bool) {
	switch strings.ToUpper(alg) {
	case "SHA3-224":
		h := sha3.Sum224(b)
		return h[:], true
	case "SHA3-256":
		h := sha3.Sum256(b)
		return h[:], true
	case "SHA3-384":
		h := sha3.Sum384(b)
		return h[:], true
	case "SHA3-512":
		h := sha3.Sum512(b)
		return h[:], true
	}
	return nil, false
}

// validDigest says whether id splits at colons into exactly two parts, where trailing empty
// parts do not count: Java's String.split, which ZooKeeper uses here, drops them.
func validDigest(id string) bool {
	return strings.Count(strings.TrimRight(id, ":"), ":") == 1
}
