package config

import (
	"fmt"
	"strings"
	"testing"
)

// The accepted files were compared with javax.security.auth.login.Configuration (Java 17).
func TestJAASReadAsJavaDoes(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"empty", " // nothing\n", ""},
		{"users", "Server { org.x.DigestLoginModule required user_bob=\"pw\" user_a.b-c=simple; };", "Server{org.x.DigestLoginModule user_bob=pw user_a.b-c=simple}"},
		{"no options", "S{M optional;};", "S{M}"},
		{"empty section", "S{};", "S{}"},
		{"two modules", "S{A required;B Sufficient x=y;};T{C REQUISITE;};", "S{A;B x=y}T{C}"},
		{"comments", "/* a\n*/S{//b\nM /*c*/required;//d\n};", "S{M}"},
		{"escapes", `S{M required a="\"\\\n\101\4012\q";};`, "S{M a=\"\\\nA 12q}"},
		{"slashes in quotes", `S{M required a="//x/*";};`, "S{M a=//x/*}"},
		{"quoted names", `"S t"{"M" required "user_a@b"="c";};`, "S t{M user_a@b=c}"},
		{"letters", "S{M required é=$x;};", "S{M é=$x}"},

		{"no brace", "Server\norg.x", `2: "{" is missing`},
		{"no flag", "S{\nM\nuser_a=b;};", "3: a class must be followed by required, requisite, sufficient or optional"},
		{"no value", "S{M required\nuser_a=;};", "2: the value of option user_a is missing"},
		{"number", "S{M required\nuser_a=123;};", `2: '1' cannot be here; put texts with anything but letters, digits and $ _ * - . into "quotes", comments after //`},
		{"dash", "S{M required a=-x;};", `1: '-' cannot be here; put texts with anything but letters, digits and $ _ * - . into "quotes", comments after //`},
		{"hash", "# x\nS{};", `1: '#' cannot be here; put texts with anything but letters, digits and $ _ * - . into "quotes", comments after //`},
		{"single slash", "S{M required keyTab=/etc/x;\n};", `1: '/' cannot be here; put texts with anything but letters, digits and $ _ * - . into "quotes", comments after //`},
		{"no semicolon after a section", "S{M required;}\nT{};", `2: ";" is missing`},
		{"no semicolon after options", "S{M required user_a=\"b\"\n};", `2: an option or ";" is missing`},
		{"unclosed text", "S{M required user_a=\"secret\n;};", `1: the quoted text has no closing " in this line`},
		{"unclosed text at the end", "S{M required user_a=\"secret\\", `1: the quoted text has no closing " in this line`},
		{"unclosed comment", "S{\n/* M required;};", "2: the comment that begins here has no */"},
		{"twice", "S{};\nT{};\nS{};", "3: section S is in line 1 already; allowed: each section once"},
		{"expansion", "S{M required\nuser_a=\"${secret}\";};", "2: the value of option user_a has ${...}, which is not expanded; write the value itself"},
		{"end", "S{M required", `1: an option or ";" is missing`},
	} {
		sections, err := parseJAAS([]byte(test.file))
		got := showSections(sections)
		if err != nil {
			got = fmt.Sprintf("%d: %s", err.line, err.text)
			if strings.Contains(got, "secret}") {
				t.Errorf("%s: the message shows a password: %s", test.name, got)
			}
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func showSections(sections []jaasSection) string {
	var b strings.Builder
	for _, s := range sections {
		var modules []string
		for _, m := range s.modules {
			text := m.class
			for _, o := range m.options {
				text += " " + o.key + "=" + o.value
			}
			modules = append(modules, text)
		}
		fmt.Fprintf(&b, "%s{%s}", s.name, strings.Join(modules, ";"))
	}
	return b.String()
}

// FuzzJAAS: any file ends in sections or in an error with a line of the file; sections that
// were read are the same after they were written with quotes.
func FuzzJAAS(f *testing.F) {
	f.Add([]byte("Server { org.x.M required user_bob=\"p\\\"w\" user_a=b; };"))
	f.Add([]byte("S{A required;B Sufficient x=y;};/* */T{C REQUISITE;};//"))
	f.Add([]byte("S{M required \"\\101\\4012\"=\"\\\r\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		sections, err := parseJAAS(file)
		if err != nil {
			if n := len(naturalLines(propertiesText(file))); err.line < 1 || err.line > n || err.text == "" {
				t.Fatalf("%q: error in line %d of %d: %q", file, err.line, n, err.text)
			}
			return
		}
		again, err := parseJAAS([]byte(quoteSections(sections)))
		if err != nil {
			t.Fatalf("%q: written again: line %d: %s", file, err.line, err.text)
		}
		if a, b := showSections(sections), showSections(again); a != b {
			t.Fatalf("%q: %q, and %q after a round trip", file, a, b)
		}
	})
}

func quoteSections(sections []jaasSection) string {
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(s) + `"`
	}
	var b strings.Builder
	for _, s := range sections {
		b.WriteString(quote(s.name) + "{")
		for _, m := range s.modules {
			b.WriteString(quote(m.class) + " required ")
			for _, o := range m.options {
				b.WriteString(quote(o.key) + "=" + quote(o.value) + " ")
			}
			b.WriteString(";")
		}
		b.WriteString("};")
	}
	return b.String()
}
