package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestChanges(t *testing.T) {
	from, _ := mustLoad(t, zooCfg("zkd.logLevel=info", "maxClientCnxns=60", "tickTime=2000", "flushDelay=1",
		"DigestAuthenticationProvider.superDigest=super:old", "syncLimit=5"))
	to, _ := mustLoad(t, zooCfg("zkd.log.level=debug", "tickTime=4000", "flushDelay=2",
		"DigestAuthenticationProvider.superDigest=super:new", "audit.enable=true", "maxCnxns=7"))
	var got []string
	for _, c := range Changes(from, to) {
		got = append(got, fmt.Sprintf("%s %s→%s %v", c.Name, c.From, c.To, c.Changeable))
	}
	want := []string{
		"DigestAuthenticationProvider.superDigest ***→*** false",
		"audit.enable →true true",
		"maxCnxns →7 true",
		"tickTime 2000→4000 false",
		"zkd.logLevel info→debug true",
	} // maxClientCnxns and syncLimit are what they are by default
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if again := Changes(to, to); len(again) != 0 {
		t.Errorf("%v", again)
	}
}

// Whoever prints a configuration prints no secret.
func TestSettingsShowNoSecret(t *testing.T) {
	c, _ := mustLoad(t, zooCfg("DigestAuthenticationProvider.superDigest=super:hunter2"))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, c.Settings); strings.Contains(text, "hunter2") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}

// What operators are told about SIGHUP is what happens.
func TestDocsNameTheChangeableKeys(t *testing.T) {
	b, err := os.ReadFile("../docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(b), "What can be changed so:")
	list, _, _ = strings.Cut(list, ", and the contents of")
	var told, there []string
	for _, word := range strings.Split(list, ",") {
		told = append(told, strings.Trim(strings.TrimSpace(word), "`"))
	}
	for _, k := range Keys() {
		if k.Changeable {
			there = append(there, k.Name)
		}
	}
	slices.Sort(told)
	slices.Sort(there)
	if !slices.Equal(told, there) {
		t.Errorf("docs/running.md names %v, changeable are %v", told, there)
	}
}
