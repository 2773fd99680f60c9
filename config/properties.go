package config

// The syntax of java.util.Properties. A library for it exists (magiconair/properties) but
// keeps no line numbers and ends a value at "\" + CR LF, and line numbers are the point here.
//
//	natural line   ends at LF, CR or CR LF
//	logical line   natural lines joined where one ends in an odd number of backslashes;
//	               leading blanks of each are dropped
//	comment        a logical line that starts with # or !; a backslash does not continue it
//	key            up to the first "=", ":" or blank that has no backslash before it
//	value          what follows, without blanks and one "=" or ":" in front
//	escapes        \t \n \r \f \uXXXX; before any other character the backslash vanishes
//
// There is no ${} expansion: Java has none either.

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// An entry is one logical line with key and value unescaped and trimmed.
type entry struct {
	key, value string
	line       int // of its first natural line, from 1
	lastLine   int // of its last natural line
	err        error
}

var errUnicodeEscape = errors.New(`\u is not followed by four hexadecimal digits; write a backslash itself as \\`)

// parseProperties returns the entries of a file in their order. An entry with a bad escape
// has err set and the rest of the file is read all the same.
func parseProperties(file []byte) []entry {
	var entries []entry
	lines := naturalLines(propertiesText(file))
	for i := 0; i < len(lines); {
		first, logical := i, ""
		for i < len(lines) {
			part := strings.TrimLeft(lines[i], " \t\f")
			i++
			if logical == "" { // also after a line that is nothing but a backslash
				first = i - 1
				if part == "" || part[0] == '#' || part[0] == '!' {
					break
				}
			}
			if !continued(part) {
				logical += part
				break
			}
			logical += part[:len(part)-1]
		}
		if logical != "" {
			entries = append(entries, splitEntry(logical, first+1, i))
		}
	}
	return entries
}

// propertiesText decodes a file. Java reads Latin-1; people write UTF-8. What is valid UTF-8
// is taken as that, anything else as Latin-1, so every file can be read.
func propertiesText(file []byte) string {
	if utf8.Valid(file) {
		return strings.TrimPrefix(string(file), "\ufeff")
	}
	runes := make([]rune, len(file))
	for i, b := range file {
		runes[i] = rune(b)
	}
	return string(runes)
}

func naturalLines(text string) []string {
	return strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
}

// continued says whether a natural line goes on in the next one.
func continued(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

func splitEntry(logical string, line, lastLine int) entry {
	end := keyEnd(logical)
	value := strings.TrimLeft(logical[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	e := entry{line: line, lastLine: lastLine}
	var keyErr, valueErr error
	e.key, keyErr = unescape(logical[:end])
	e.value, valueErr = unescape(value)
	e.key, e.value = javaTrim(e.key), javaTrim(e.value)
	e.err = errors.Join(keyErr, valueErr)
	return e
}

// keyEnd returns the index of the first separator that is not escaped.
func keyEnd(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '=', ':', ' ', '\t', '\f':
			return i
		}
	}
	return len(s)
}

// unescape resolves the escapes. Two \u escapes that form a UTF-16 pair become one rune.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var out []rune
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		if r != '\\' || i == len(s) {
			out = append(out, r)
			continue
		}
		r, size = utf8.DecodeRuneInString(s[i:])
		i += size
		if r != 'u' {
			out = append(out, escaped(r))
			continue
		}
		if len(s)-i < 4 {
			return "", errUnicodeEscape
		}
		code, err := strconv.ParseUint(s[i:i+4], 16, 16)
		if err != nil {
			return "", errUnicodeEscape
		}
		i += 4
		out = appendUTF16(out, rune(code))
	}
	return string(out), nil
}

func escaped(r rune) rune {
	switch r {
	case 't':
		return '\t'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 'f':
		return '\f'
	}
	return r
}

// appendUTF16 joins a low surrogate with the high one before it.
func appendUTF16(out []rune, r rune) []rune {
	if n := len(out); n > 0 {
		if pair := utf16.DecodeRune(out[n-1], r); pair != utf8.RuneError {
			out[n-1] = pair
			return out
		}
	}
	return append(out, r)
}

// javaTrim is String.trim: everything up to and including the blank is white.
func javaTrim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}
