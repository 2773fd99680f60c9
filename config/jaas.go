package config

// JAAS login files, as javax.security.auth.login.Configuration reads them:
//
//	file    = { name "{" { module } "}" ";" }
//	module  = class flag { key "=" value } ";"
//	flag    = "required" | "requisite" | "sufficient" | "optional", any case
//
// A word is made of letters, digits and $ _ * - . and does not start with one of the last
// two or with a digit. Names, classes, keys and values may also be quoted, with the escapes
// of Java. // and /* */ are comments. Java's reader is a StreamTokenizer that takes more than this by accident: a
// single / hides the rest of a line, and a quoted text ends at the end of a line. Here both
// are errors, because they silently lose a user.
//
// No message shows a value: they are passwords.

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A jaasSection is a named list of login modules.
type jaasSection struct {
	name    string
	line    int
	modules []jaasModule
}

type jaasModule struct {
	class   string
	line    int
	options []jaasOption
}

type jaasOption struct{ key, value string }

// A jaasError is where reading stopped, and why.
type jaasError struct {
	line int
	text string
}

// parseJAAS returns the sections in their order. It stops at the first error: where the
// next section begins cannot be known then.
func parseJAAS(file []byte) ([]jaasSection, *jaasError) {
	p := &jaasParser{text: strings.Join(naturalLines(propertiesText(file)), "\n"), line: 1}
	p.next()
	var sections []jaasSection
	for p.err == nil && p.kind != jaasEnd {
		s := p.section()
		for _, other := range sections {
			if other.name == s.name {
				p.fail(s.line, "section %s is in line %d already; allowed: each section once", s.name, other.line)
			}
		}
		sections = append(sections, s)
	}
	if p.err != nil {
		return nil, p.err
	}
	return sections, nil
}

type jaasKind uint8

const (
	jaasEnd jaasKind = iota
	jaasWord
	jaasMark // { } = ;
)

// jaasParser has one token of lookahead: kind, token, at. After an error every token is the
// end, so all loops stop.
type jaasParser struct {
	text string // what is not read yet
	line int
	err  *jaasError

	kind  jaasKind
	token string
	at    int // line of the token
}

func (p *jaasParser) section() jaasSection {
	s := jaasSection{line: p.at, name: p.word("the name of a section")}
	p.mark("{")
	for p.err == nil && !p.isMark("}") {
		s.modules = append(s.modules, p.module())
	}
	p.mark("}")
	p.mark(";")
	return s
}

func (p *jaasParser) module() jaasModule {
	m := jaasModule{line: p.at, class: p.word("the class of a login module")}
	at, flag := p.at, p.word("required, requisite, sufficient or optional")
	if p.err == nil {
		switch strings.ToLower(flag) {
		case "required", "requisite", "sufficient", "optional":
		default:
			p.fail(at, "a class must be followed by required, requisite, sufficient or optional")
		}
	}
	for p.err == nil && !p.isMark(";") {
		o := jaasOption{key: p.word(`an option or ";"`)}
		p.mark("=")
		at := p.at
		o.value = p.word("the value of option " + o.key)
		if strings.Contains(o.value, "${") {
			p.fail(at, "the value of option %s has ${...}, which is not expanded; write the value itself", o.key)
		}
		m.options = append(m.options, o)
	}
	p.mark(";")
	return m
}

func (p *jaasParser) isMark(mark string) bool { return p.kind == jaasMark && p.token == mark }

func (p *jaasParser) mark(mark string) {
	if p.err == nil && !p.isMark(mark) {
		p.fail(p.at, "%q is missing", mark)
	}
	p.next()
}

func (p *jaasParser) word(what string) string {
	if p.err == nil && p.kind != jaasWord {
		p.fail(p.at, "%s is missing", what)
	}
	w := p.token
	p.next()
	return w
}

func (p *jaasParser) fail(line int, format string, args ...any) {
	if p.err == nil {
		p.err = &jaasError{line, fmt.Sprintf(format, args...)}
	}
	p.kind, p.token = jaasEnd, ""
}

// next reads the next token.
func (p *jaasParser) next() {
	if p.err != nil {
		return
	}
	p.skipBlank()
	if p.err != nil {
		return
	}
	p.at, p.token = p.line, ""
	if p.text == "" {
		p.kind = jaasEnd
		return
	}
	c := p.text[0]
	switch {
	case strings.IndexByte("{}=;", c) >= 0:
		p.kind, p.token, p.text = jaasMark, p.text[:1], p.text[1:]
	case c == '"':
		p.quoted()
	case jaasLetter(c) && c != '-':
		n := 1
		for n < len(p.text) && (jaasLetter(p.text[n]) || p.text[n] == '.' || p.text[n] >= '0' && p.text[n] <= '9') {
			n++
		}
		p.kind, p.token, p.text = jaasWord, p.text[:n], p.text[n:]
	default:
		r, _ := utf8.DecodeRuneInString(p.text)
		p.fail(p.line, `%q cannot be here; put texts with anything but letters, digits and $ _ * - . into "quotes", comments after //`, r)
	}
}

func jaasLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf || strings.IndexByte("$_-*", c) >= 0
}

func (p *jaasParser) skipBlank() {
	for p.text != "" {
		switch {
		case p.text[0] == '\n':
			p.line++
			p.text = p.text[1:]
		case p.text[0] <= ' ':
			p.text = p.text[1:]
		case strings.HasPrefix(p.text, "//"):
			end := strings.IndexByte(p.text, '\n')
			if end < 0 {
				end = len(p.text)
			}
			p.text = p.text[end:]
		case strings.HasPrefix(p.text, "/*"):
			end := strings.Index(p.text[2:], "*/")
			if end < 0 {
				p.fail(p.line, "the comment that begins here has no */")
				return
			}
			p.line += strings.Count(p.text[:end+4], "\n")
			p.text = p.text[end+4:]
		default:
			return
		}
	}
}

// quoted reads a text in quotes. Escapes: \a \b \f \n \r \t \v, one to three octal digits up
// to \377; before anything else the backslash vanishes.
func (p *jaasParser) quoted() {
	var b strings.Builder
	for i := 1; i < len(p.text); i++ {
		switch c := p.text[i]; c {
		case '"':
			p.kind, p.token, p.text = jaasWord, b.String(), p.text[i+1:]
			return
		case '\n', '\r':
			p.fail(p.line, `the quoted text has no closing " in this line`)
			return
		case '\\':
			i++
			if i == len(p.text) || p.text[i] == '\n' || p.text[i] == '\r' {
				p.fail(p.line, `the quoted text has no closing " in this line`)
				return
			}
			i += jaasEscape(&b, p.text[i:])
		default:
			b.WriteByte(c)
		}
	}
	p.fail(p.line, `the quoted text has no closing "`)
}

// jaasEscape writes what the text after a backslash stands for, and returns how many bytes
// beyond the first it took.
func jaasEscape(b *strings.Builder, s string) int {
	const named, means = "abfnrtv", "\a\b\f\n\r\t\v"
	if i := strings.IndexByte(named, s[0]); i >= 0 {
		b.WriteByte(means[i])
		return 0
	}
	if s[0] < '0' || s[0] > '7' {
		b.WriteByte(s[0])
		return 0
	}
	digits := 1
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '7' && (digits == 1 || digits == 2 && s[0] <= '3') {
		digits++
	}
	var code rune
	for _, d := range s[:digits] {
		code = code*8 + (d - '0')
	}
	b.WriteRune(code)
	return digits - 1
}
