package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Expected values are those of java.util.Properties.load (Java 17), keys and values trimmed.
func TestPropertiesReadAsJavaDoes(t *testing.T) {
	for _, test := range []struct {
		file string
		want string // line:key=value, joined by blanks
	}{
		{"a=b", "1:a=b"},
		{"a = b \r\nc:d", "1:a=b 2:c=d"},
		{"a b=c", "1:a=b=c"},
		{"a\t=\f: b", "1:a=: b"},
		{"\n \t\n# x=1\n! y=2\n  a=1", "5:a=1"},
		{"# comment \\\na=1", "2:a=1"},
		{"a=1\\\n  2\\\r\n\t3\nb=4", "1:a=123 4:b=4"},
		{"a=1\\\\\nb=2", `1:a=1\ 2:b=2`},
		{"a=1\\\n# 2\nb", "1:a=1# 2 3:b="},
		{"\\\n#x\na=1", "3:a=1"},
		{"a=1\\\n\nb=2", "1:a=1 3:b=2"},
		{`a\ b\=c\:d=e`, "1:a b=c:d=e"},
		{`a=\t\n\q\u00e9\ud83d\ude00 x`, "1:a=qé😀 x"},
		{"a=\\", "1:a="},
		{"a=${b}", "1:a=${b}"},
		{"a=1\rb=2\r\rc=3", "1:a=1 2:b=2 4:c=3"},
		{"\ufeffa=é", "1:a=é"},
		{"a=\xe9", "1:a=é"}, // Latin-1
		{"a=1#2", "1:a=1#2"},
		{`a=\u00e`, "1:error"},
		{"a=\\u00gg\nb=2", "1:error 2:b=2"},
	} {
		var got []string
		for _, e := range parseProperties([]byte(test.file)) {
			if e.err != nil {
				got = append(got, fmt.Sprintf("%d:error", e.line))
				continue
			}
			got = append(got, fmt.Sprintf("%d:%s=%s", e.line, e.key, e.value))
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%q: got %q, want %q", test.file, s, test.want)
		}
	}
}

func TestSecretsOfAFileAreMasked(t *testing.T) {
	file := "tickTime=1000\nssl.keyStore.password=one\\\n  two\n" +
		"zookeeper.DigestAuthenticationProvider.superDigest=super:three\nclientPort=1\nmy.Password=four\n" +
		"ssl.trustStore.password=fi\\u00ve"
	want := "tickTime=1000\nssl.keyStore.password=***\n" +
		"zookeeper.DigestAuthenticationProvider.superDigest=***\nclientPort=1\nmy.Password=***\n" +
		"ssl.trustStore.password=***"
	if got := maskSecrets([]byte(file), parseProperties([]byte(file))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzProperties: any file can be read; lines go up; what was read reads the same again
// after it was written with escapes.
func FuzzProperties(f *testing.F) {
	for _, s := range []string{"a=1\\\n 2\n#c\n b : c", "\\u00e9=\\ud83d\\ude00", "\\\\=\\", "\r\n\t=x", "a\\ b \xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		entries := parseProperties(file)
		var again strings.Builder
		last, count := 0, len(naturalLines(propertiesText(file)))
		for i, e := range entries {
			if e.line <= last || e.lastLine < e.line || e.lastLine > count {
				t.Fatalf("%q: entry %d is in lines %d to %d, the one before ends in %d of %d", file, i, e.line, e.lastLine, last, count)
			}
			last = e.lastLine
			fmt.Fprintf(&again, "%s=%s\n", escapeForTest(e.key), escapeForTest(e.value))
		}
		for i, e := range parseProperties([]byte(again.String())) {
			if !reflect.DeepEqual([]string{entries[i].key, entries[i].value}, []string{e.key, e.value}) {
				t.Fatalf("%q: entry %d is %q=%q, and %q=%q after a round trip", file, i,
					entries[i].key, entries[i].value, e.key, e.value)
			}
		}
	})
}

// escapeForTest writes everything but letters as \uXXXX.
func escapeForTest(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z' || r > 0xffff:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
