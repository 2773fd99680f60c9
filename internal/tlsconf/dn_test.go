package tlsconf

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	oidCN      = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidOU      = asn1.ObjectIdentifier{2, 5, 4, 11}
	oidO       = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidSerial  = asn1.ObjectIdentifier{2, 5, 4, 5}
	oidEmail   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}
	oidUID     = asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}
	oidDC      = asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}
	oidPrivate = asn1.ObjectIdentifier{1, 2, 3}
)

func utf8Value(s string) asn1.RawValue {
	return asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte(s)}
}

// The expected names are those of javax.security.auth.x500.X500Principal.getName() (Java 17),
// with which 4,000 random names were compared as well.
func TestSubjectDNIsJavas(t *testing.T) {
	one := func(oid asn1.ObjectIdentifier, v asn1.RawValue) []relativeDistinguishedNameSET {
		return []relativeDistinguishedNameSET{{{oid, v}}}
	}
	for _, test := range []struct {
		name string
		rdns []relativeDistinguishedNameSET
		want string
	}{
		{"empty", []relativeDistinguishedNameSET{}, ""},
		{"most specific first", []relativeDistinguishedNameSET{
			{{oidO, utf8Value("acme")}}, {{oidOU, utf8Value("dev")}}, {{oidCN, utf8Value("client")}},
		}, "CN=client,OU=dev,O=acme"},
		{"several values", []relativeDistinguishedNameSET{
			{{oidO, utf8Value("acme")}}, {{oidCN, utf8Value("a")}, {oidUID, utf8Value("b")}},
		}, "CN=a+UID=b,O=acme"},
		{"domain", []relativeDistinguishedNameSET{
			{{oidDC, asn1.RawValue{Tag: asn1.TagIA5String, Bytes: []byte("com")}}}, {{oidDC, asn1.RawValue{Tag: asn1.TagIA5String, Bytes: []byte("acme")}}},
		}, "DC=acme,DC=com"},
		{"escapes", one(oidCN, utf8Value(`a,b=c+d<e>f#g;h"i\j/k`)), `CN=a\,b\=c\+d\<e\>f\#g\;h\"i\\j/k`},
		{"blanks", one(oidCN, utf8Value("  a b  ")), `CN=\ \ a b\ \ `},
		{"only blanks", one(oidCN, utf8Value("  ")), `CN=\ \ `},
		{"carriage return", one(oidCN, utf8Value("\ra\n\r")), "CN=\\\ra\n\\\r"},
		{"null", one(oidCN, utf8Value("a\x00b")), `CN=a\00b`},
		{"letters", one(oidCN, utf8Value("Zoë 😀")), "CN=Zoë 😀"},
		{"empty value", one(oidCN, utf8Value("")), "CN="},
		{"unknown type", one(oidPrivate, utf8Value("x")), "1.2.3=#0c0178"},
		{"email", one(oidEmail, asn1.RawValue{Tag: asn1.TagIA5String, Bytes: []byte("a@b")}), "1.2.840.113549.1.9.1=#1603614062"},
		{"serial number", one(oidSerial, asn1.RawValue{Tag: asn1.TagPrintableString, Bytes: []byte("1")}), "2.5.4.5=#130131"},
		{"no string", one(oidCN, asn1.RawValue{Tag: asn1.TagInteger, Bytes: []byte{5}}), "CN=#020105"},
		{"numeric string", one(oidCN, asn1.RawValue{Tag: asn1.TagNumericString, Bytes: []byte("1")}), "CN=#120131"},
		{"two-byte string", one(oidCN, asn1.RawValue{Tag: asn1.TagBMPString, Bytes: []byte("\x00a")}), `CN=\00a`},
	} {
		der, err := asn1.Marshal(test.rdns)
		if err != nil {
			t.Fatal(err)
		}
		if got := nameDN(der); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestSubjectDNOfACertificate(t *testing.T) {
	ca := newAuthority(t, "ca")
	c := ca.issue(t, func(c *x509.Certificate) {
		c.Subject = pkix.Name{CommonName: "client", OrganizationalUnit: []string{"dev"}, Organization: []string{"acme"}}
	})
	if got := SubjectDN(c.leaf); got != "CN=client,OU=dev,O=acme" {
		t.Errorf("got %q", got)
	}
}

func FuzzDN(f *testing.F) {
	der, err := asn1.Marshal([]relativeDistinguishedNameSET{{{oidCN, utf8Value(" a,\x00")}, {oidPrivate, utf8Value("x")}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(der)
	f.Fuzz(func(t *testing.T, der []byte) {
		dn := nameDN(der)
		if !utf8.ValidString(dn) || strings.ContainsRune(dn, 0) {
			t.Fatalf("%x: %q", der, dn)
		}
	})
}
