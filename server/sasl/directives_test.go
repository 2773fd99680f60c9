package sasl

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestDirectives(t *testing.T) {
	tests := []struct {
		in   string
		want directives // nil: malformed
	}{
		{"", directives{}},
		{" , ,\t,", directives{}},
		{"a=b", directives{"a": "b"}},
		{`A = "b" , c=d,`, directives{"a": "b", "c": "d"}},
		{`a="",b="\"\\\,x"`, directives{"a": "", "b": `"\,x`}},
		{`a="ä, b=c"`, directives{"a": "ä, b=c"}},
		{"a", nil},
		{"a=", nil},
		{"a=,b=c", nil},
		{"=b", nil},
		{`"a"=b`, nil},
		{"a=b c=d", nil},
		{`a="b"c`, nil},
		{`a="b"c=d`, nil},
		{`a="b`, nil},
		{`a="b\`, nil},
		{`a="b\"`, nil},
		{"a=b=c", nil},
		{"a=b,A=c", nil},
		{"a=\"b\x00\"", nil},
		{"a=\"b\\\n\"", nil},
		{"ä=b", nil},
		{"a=b\x7f", nil},
		{strings.Repeat("a=b,", 2), nil},
	}
	for _, tt := range tests {
		got, err := parseDirectives([]byte(tt.in))
		if tt.want == nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%q is read as %q, %v", tt.in, got, err)
			}
			continue
		}
		if err != nil || !maps.Equal(got, tt.want) {
			t.Errorf("%q is read as %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestManyDirectivesAreRefused(t *testing.T) {
	var b strings.Builder
	for i := range maxDirectives + 1 {
		b.WriteString("x" + strings.Repeat("y", i) + "=1,")
	}
	if _, err := parseDirectives([]byte(b.String())); !errors.Is(err, ErrMalformed) {
		t.Errorf("%d directives: %v", maxDirectives+1, err)
	}
}

// What can be read is read the same again after writing it in the plainest form.
func FuzzDirectives(f *testing.F) {
	f.Add([]byte(`charset=utf-8,username="bob",realm="zk-sasl-md5",nonce="oDz/AKA8",nc=00000001,qop=auth`))
	f.Add([]byte(` A = "b\"\\" ,,c=d`))
	f.Add([]byte(`a="`))
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := parseDirectives(in)
		if err != nil {
			if d != nil || !errors.Is(err, ErrMalformed) {
				t.Fatalf("%q: %q, %v", in, d, err)
			}
			return
		}
		var again []string
		for _, name := range slices.Sorted(maps.Keys(d)) {
			again = append(again, name+"="+quote(d[name]))
		}
		d2, err := parseDirectives([]byte(strings.Join(again, ",")))
		if err != nil || !maps.Equal(d, d2) {
			t.Fatalf("%q is read as %q and then as %q, %v", in, d, d2, err)
		}
	})
}
