package acl

import "strings"

// validDN says whether s is an X.500 name in the text form of RFC 2253 and RFC 1779, as
// Java's X500Principal reads it:
//
//	name      = [ component *( ( "," | ";" ) component ) ]
//	component = pair *( "+" pair )
//	pair      = ( keyword | oid ) "=" ( quoted | "#" hex | text with "\" escapes )
//
// Keywords are those that Java knows; an unknown one is an error there.
func validDN(s string) bool {
	if strings.Trim(s, " ") == "" {
		return true // the empty name
	}
	for {
		attr, rest, found := strings.Cut(s, "=")
		if !found || !validAttribute(attr) {
			return false
		}
		rest, ok := skipValue(rest)
		if !ok {
			return false
		}
		if rest == "" {
			return true
		}
		s = rest[1:] // the separator
	}
}

func validAttribute(attr string) bool {
	attr = strings.ToUpper(strings.Trim(attr, " \n"))
	switch attr {
	case "CN", "C", "L", "S", "ST", "O", "OU", "T", "IP", "STREET", "DC", "DNQUALIFIER", "DNQ",
		"SURNAME", "GIVENNAME", "INITIALS", "GENERATION", "EMAIL", "EMAILADDRESS", "UID", "SERIALNUMBER":
		return true
	}
	return validOID(strings.TrimPrefix(attr, "OID."))
}

// validOID says whether s is at least two numbers joined by dots, the first 0, 1 or 2.
func validOID(s string) bool {
	arcs := strings.Split(s, ".")
	if len(arcs) < 2 || len(arcs[0]) != 1 || arcs[0] > "2" {
		return false
	}
	for _, arc := range arcs {
		if arc == "" || strings.Trim(arc, "0123456789") != "" {
			return false
		}
	}
	return true
}

// skipValue returns what follows a value: nothing, or a text that starts with a separator.
func skipValue(s string) (rest string, ok bool) {
	s = strings.TrimLeft(s, " \n")
	switch {
	case strings.HasPrefix(s, `"`):
		return skipQuoted(s[1:])
	case strings.HasPrefix(s, "#"):
		return skipHex(s[1:])
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			n := escapeLen(s[i+1:])
			if n == 0 {
				return "", false
			}
			i += n
		case ',', ';', '+':
			return s[i:], true
		case '"', '<', '>':
			return "", false
		}
	}
	return s[len(s):], true
}

func skipQuoted(s string) (rest string, ok bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			n := escapeLen(s[i+1:])
			if n == 0 {
				return "", false
			}
			i += n
		case '"':
			return afterValue(s[i+1:])
		}
	}
	return "", false
}

func skipHex(s string) (rest string, ok bool) {
	n := 0
	for n < len(s) && isHex(s[n]) {
		n++
	}
	if n == 0 || n%2 != 0 {
		return "", false
	}
	return afterValue(s[n:])
}

// afterValue allows blanks between a value with an explicit end and the separator.
func afterValue(s string) (rest string, ok bool) {
	s = strings.TrimLeft(s, " \n")
	return s, s == "" || strings.IndexByte(",;+", s[0]) >= 0
}

// escapeLen is the number of bytes that an escape takes after its backslash: a special
// character or two hex digits; 0 if it is none.
func escapeLen(s string) int {
	switch {
	case len(s) >= 2 && isHex(s[0]) && isHex(s[1]):
		return 2
	case len(s) >= 1 && strings.IndexByte(",=\n+<>#;\\\" ", s[0]) >= 0:
		return 1
	}
	return 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
