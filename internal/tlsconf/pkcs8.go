package tlsconf

// Encrypted private keys in PKCS#8, of which the standard library reads only plain ones.
//
//	EncryptedPrivateKeyInfo = { algorithm PBES2, encrypted }                  RFC 5208
//	PBES2-params            = { keyDerivationFunc PBKDF2, encryptionScheme }  RFC 8018
//	PBKDF2-params           = { salt, iterations, [keyLength], [prf HMAC-SHA1] }
//
// That is what openssl pkcs8 -topk8 and Java write. The older PBES1 is refused.

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// maxIterations keeps a damaged file from occupying a processor for hours.
const maxIterations = 10_000_000

type encryptedPrivateKeyInfo struct {
	Algorithm pkix.AlgorithmIdentifier
	Encrypted []byte
}

type pbes2Params struct {
	KeyDerivation pkix.AlgorithmIdentifier
	Encryption    pkix.AlgorithmIdentifier
}

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

const (
	oidPBES2  = "1.2.840.113549.1.5.13"
	oidPBKDF2 = "1.2.840.113549.1.5.12"
)

// prfs are the hashes of PBKDF2 by object identifier; "" is the default.
var prfs = map[string]func() hash.Hash{
	"":                    sha1.New,
	"1.2.840.113549.2.7":  sha1.New,
	"1.2.840.113549.2.8":  sha256.New224,
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
	"1.2.840.113549.2.12": sha512.New512_224,
	"1.2.840.113549.2.13": sha512.New512_256,
}

type blockCipher struct {
	keyLength int
	newBlock  func(key []byte) (cipher.Block, error)
}

// ciphers are the encryptions, all in CBC mode, by object identifier.
var ciphers = map[string]blockCipher{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

// decryptPKCS8 returns the plain PKCS#8 key. A wrong password may also come out as a key
// that does not parse.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var info encryptedPrivateKeyInfo
	if err := unmarshal(der, &info); err != nil {
		return nil, err
	}
	if oid := info.Algorithm.Algorithm.String(); oid != oidPBES2 {
		return nil, fmt.Errorf("the private key is encrypted with %s; change it with openssl pkcs8 -topk8 -v2 aes-256-cbc", oid)
	}
	var params pbes2Params
	if err := unmarshal(info.Algorithm.Parameters.FullBytes, &params); err != nil {
		return nil, err
	}
	encryption := params.Encryption.Algorithm.String()
	c, known := ciphers[encryption]
	if !known {
		return nil, fmt.Errorf("the private key is encrypted with cipher %s; allowed: AES and triple DES in CBC mode", encryption)
	}
	var iv []byte
	if err := unmarshal(params.Encryption.Parameters.FullBytes, &iv); err != nil {
		return nil, err
	}
	key, err := deriveKey(&params.KeyDerivation, password, c.keyLength)
	if err != nil {
		return nil, err
	}
	block, err := c.newBlock(key)
	if err != nil {
		return nil, fmt.Errorf("the private key: %w", err)
	}
	return decryptCBC(block, iv, info.Encrypted)
}

func deriveKey(algorithm *pkix.AlgorithmIdentifier, password string, length int) ([]byte, error) {
	if oid := algorithm.Algorithm.String(); oid != oidPBKDF2 {
		return nil, fmt.Errorf("the key of the private key is derived with %s; allowed: PBKDF2", oid)
	}
	var params pbkdf2Params
	if err := unmarshal(algorithm.Parameters.FullBytes, &params); err != nil {
		return nil, err
	}
	prf, known := prfs[params.PRF.Algorithm.String()]
	switch {
	case !known:
		return nil, fmt.Errorf("the private key uses PBKDF2 with %s; allowed: HMAC with SHA-1 or SHA-2", params.PRF.Algorithm)
	case params.Iterations < 1 || params.Iterations > maxIterations:
		return nil, fmt.Errorf("the private key asks for %d iterations of PBKDF2; allowed: 1 to %d", params.Iterations, maxIterations)
	case params.KeyLength != 0 && params.KeyLength != length:
		return nil, fmt.Errorf("the private key has a cipher key of %d bytes where %d are needed", params.KeyLength, length)
	}
	return pbkdf2.Key(prf, password, params.Salt, params.Iterations, length)
}

// decryptCBC also takes the padding off: n bytes of the value n.
func decryptCBC(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("the private key is damaged: it is not made of whole blocks")
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > size {
		return nil, errWrongPassword
	}
	for _, b := range plain[len(plain)-padding:] {
		if int(b) != padding {
			return nil, errWrongPassword
		}
	}
	return plain[:len(plain)-padding], nil
}

func unmarshal(der []byte, into any) error {
	rest, err := asn1.Unmarshal(der, into)
	if err == nil && len(rest) > 0 {
		err = errors.New("there is more behind it")
	}
	if err != nil {
		return fmt.Errorf("the private key is damaged: %w", err)
	}
	return nil
}
