package tlsconf

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"slices"
	"strings"
)

// SubjectDN is the subject of a certificate as Java's X500Principal.getName() writes it
// (RFC 2253): the most specific part first, for example "CN=client,OU=dev,O=acme". ACLs
// compare it letter by letter, so what Java does beyond the RFC is done here, too:
//
//   - "=", "#" and leading or trailing CR are escaped as well, a NUL is "\00";
//   - the bytes of every string type are taken for UTF-8, even those of a BMPString;
//   - an attribute type without a name in RFC 2253 is "1.2.3=#" and the DER value in hex,
//     and so is a value that is no string.
//
// crypto/x509/pkix.Name.String is not enough: it forgets the order within the sequence and
// knows other names and escapes.
func SubjectDN(certificate *x509.Certificate) string {
	return nameDN(certificate.RawSubject)
}

type attributeTypeAndValue struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// relativeDistinguishedNameSET: encoding/asn1 takes the last letters of its name for a SET.
type relativeDistinguishedNameSET []attributeTypeAndValue

func nameDN(der []byte) string {
	var name []relativeDistinguishedNameSET
	if rest, err := asn1.Unmarshal(der, &name); err != nil || len(rest) > 0 {
		// crypto/x509 has accepted it, and it is no name for anybody.
		return "#" + hex.EncodeToString(der)
	}
	parts := make([]string, 0, len(name))
	for _, rdn := range slices.Backward(name) {
		pairs := make([]string, len(rdn))
		for i, a := range rdn {
			pairs[i] = attributeDN(a)
		}
		parts = append(parts, strings.Join(pairs, "+"))
	}
	return strings.Join(parts, ",")
}

// keywords are the attribute types that RFC 2253 names.
var keywords = map[string]string{
	"2.5.4.3":  "CN",
	"2.5.4.6":  "C",
	"2.5.4.7":  "L",
	"2.5.4.8":  "ST",
	"2.5.4.9":  "STREET",
	"2.5.4.10": "O",
	"2.5.4.11": "OU",

	"0.9.2342.19200300.100.1.1":  "UID",
	"0.9.2342.19200300.100.1.25": "DC",
}

func attributeDN(a attributeTypeAndValue) string {
	oid := a.Type.String()
	keyword, known := keywords[oid]
	if !known {
		return oid + "=#" + hex.EncodeToString(a.Value.FullBytes)
	}
	if !isString(a.Value) {
		return keyword + "=#" + hex.EncodeToString(a.Value.FullBytes)
	}
	return keyword + "=" + escapeDN(string(a.Value.Bytes))
}

func isString(v asn1.RawValue) bool {
	if v.Class != asn1.ClassUniversal {
		return false
	}
	switch v.Tag {
	case asn1.TagPrintableString, asn1.TagT61String, asn1.TagIA5String, asn1.TagGeneralString, asn1.TagBMPString, asn1.TagUTF8String:
		return true
	}
	return false
}

func escapeDN(s string) string {
	blank := func(r rune) bool { return r == ' ' || r == '\r' }
	start := len(s) - len(strings.TrimLeftFunc(s, blank))
	end := max(start, len(strings.TrimRightFunc(s, blank)))
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == 0:
			b.WriteString(`\00`)
			continue
		case strings.ContainsRune(`,=+<>#;"\`, r), i < start, i >= end:
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
