package sasl

import "strings"

// directives are the name=value pairs of a token, names in lower case, values without
// quotes. Names that the mechanism does not know are among them: RFC 2831 wants them ignored.
type directives map[string]string

// maxDirectives is far above the 13 that RFC 2831 knows.
const maxDirectives = 32

// parseDirectives reads a list as RFC 2831 §7.1 describes it:
//
//	list      = [directive] *("," [directive])
//	directive = token "=" (token / quoted-string)
//
// with blanks and tabs around each part. A name must not come twice: whichever was meant,
// another reader might take the other one.
func parseDirectives(token []byte) (directives, error) {
	p := parser{rest: string(token)}
	d := directives{}
	for {
		for p.skipBlank(); p.take(','); p.skipBlank() {
		}
		if p.rest == "" {
			return d, nil
		}
		if len(d) == maxDirectives {
			return nil, malformed("more than %d directives", maxDirectives)
		}
		name, value, err := p.directive()
		if err != nil {
			return nil, err
		}
		if _, twice := d[name]; twice {
			return nil, malformed("directive %q comes twice", name)
		}
		d[name] = value
		if p.skipBlank(); p.rest != "" && p.rest[0] != ',' {
			return nil, malformed("a comma is missing after directive %q", name)
		}
	}
}

// A parser holds what is left to read.
type parser struct{ rest string }

func (p *parser) directive() (name, value string, err error) {
	name = strings.ToLower(p.token())
	if name == "" {
		return "", "", malformed("a directive without a name")
	}
	p.skipBlank()
	if !p.take('=') {
		return "", "", malformed("directive %q without a value", name)
	}
	p.skipBlank()
	if p.take('"') {
		value, err = p.quoted(name)
		return name, value, err
	}
	if value = p.token(); value == "" {
		return "", "", malformed("directive %q without a value", name)
	}
	return name, value, nil
}

// token takes as many characters as a token may have (RFC 2616 §2.2).
func (p *parser) token() string {
	n := 0
	for n < len(p.rest) && isTokenByte(p.rest[n]) {
		n++
	}
	t := p.rest[:n]
	p.rest = p.rest[n:]
	return t
}

// quoted takes the rest of a quoted string, whose opening quote has been read.
func (p *parser) quoted(name string) (string, error) {
	var out []byte
	for i := 0; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case c == '"':
			p.rest = p.rest[i+1:]
			return string(out), nil
		case c == '\\' && i+1 < len(p.rest):
			i++
			c = p.rest[i]
		}
		if c < ' ' || c == 0x7f {
			return "", malformed("a control character in directive %q", name)
		}
		out = append(out, c)
	}
	return "", malformed("directive %q has no closing quote", name)
}

func (p *parser) skipBlank() {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
}

func (p *parser) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func isTokenByte(c byte) bool {
	return c > ' ' && c < 0x7f && !strings.ContainsRune(`()<>@,;:\"/[]?={}`, rune(c))
}

// quote is the counterpart of quoted.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
