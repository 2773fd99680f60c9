package sasl

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "record the exchanges in testdata again, with the java of this machine")

const recordings = "testdata/java-exchanges.txt"

// An exchange is one conversation with Java's client.
type exchange struct {
	user, password, authzID    string // "-" for no authorization id
	challenge, response, final string
}

// users of the recorded exchanges: ASCII, ISO 8859-1, neither, and what needs quoting.
var recordedUsers = []exchange{
	{user: "bob", password: "bobsecret", authzID: "-"},
	{user: "bob", password: "bobsecret", authzID: "bob"},
	{user: "jürgen", password: "pässwörd", authzID: "-"},
	{user: "Дмитрий", password: "пароль", authzID: "Дмитрий"},
	{user: `a "quoted\name", b=c`, password: `"\`, authzID: `a "quoted\name", b=c`},
	{user: "mixed", password: "ключ é", authzID: "-"},
}

// fixedNonce gives the same nonce for the i-th exchange every time.
func fixedNonce(i int) io.Reader {
	return bytes.NewReader(bytes.Repeat([]byte{byte(0xa0 + i), 0x3c, 0xff, byte(i)}, nonceBytes))
}

func serverFor(t *testing.T, e exchange, i int) *Server {
	t.Helper()
	s, err := New(Config{Lookup: Users(map[string]string{e.user: e.password}), Nonce: fixedNonce(i)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What Java's client sent is accepted, and answered with what Java's client accepted.
func TestRecordedExchangesWithJava(t *testing.T) {
	if *update {
		record(t)
	}
	for i, e := range readExchanges(t) {
		s := serverFor(t, e, i)
		challenge, done, _, err := s.Step(nil)
		if string(challenge) != e.challenge || done || err != nil {
			t.Errorf("exchange %d: challenge %s, done %v, %v; recorded %s", i, challenge, done, err, e.challenge)
		}
		final, done, id, err := s.Step([]byte(e.response))
		if string(final) != e.final || !done || id != e.user || err != nil {
			t.Errorf("exchange %d: final %s, done %v, id %q, %v; recorded %s", i, final, done, id, err, e.final)
		}
	}
}

func readExchanges(t *testing.T) []exchange {
	t.Helper()
	b, err := os.ReadFile(recordings)
	if err != nil {
		t.Fatal(err)
	}
	var all []exchange
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || key == "#" {
			continue
		}
		text, err := strconv.Unquote(value)
		if err != nil {
			t.Fatalf("%s: %q: %v", recordings, line, err)
		}
		if key == "user" {
			all = append(all, exchange{})
		}
		e := &all[len(all)-1]
		*map[string]*string{
			"user": &e.user, "password": &e.password, "authzid": &e.authzID,
			"challenge": &e.challenge, "response": &e.response, "final": &e.final,
		}[key] = text
	}
	if len(all) != len(recordedUsers) {
		t.Fatalf("%d exchanges in %s, want %d", len(all), recordings, len(recordedUsers))
	}
	return all
}

// record has every exchange with a new client and writes them down.
func record(t *testing.T) {
	t.Helper()
	var out strings.Builder
	out.WriteString("# Exchanges with Java's DIGEST-MD5 client (testdata/DigestClient.java); go test -update renews them.\n")
	for i, e := range recordedUsers {
		e = converse(t, serverFor(t, e, i), e)
		fmt.Fprintf(&out, "\nuser %s\npassword %s\nauthzid %s\nchallenge %s\nresponse %s\nfinal %s\n",
			strconv.Quote(e.user), strconv.Quote(e.password), strconv.Quote(e.authzID),
			strconv.Quote(e.challenge), strconv.Quote(e.response), strconv.Quote(e.final))
	}
	if err := os.WriteFile(recordings, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func converse(t *testing.T, s *Server, e exchange) exchange {
	t.Helper()
	cmd := exec.Command("java", "testdata/DigestClient.java")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	send := func(text string) { fmt.Fprintln(stdin, base64.StdEncoding.EncodeToString([]byte(text))) }
	lines := bufio.NewScanner(stdout)

	challenge, _, _, err := s.Step(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{e.user, e.password, e.authzID, string(challenge)} {
		send(text)
	}
	lines.Scan()
	response, _ := base64.StdEncoding.DecodeString(lines.Text())
	final, _, _, err := s.Step(response)
	if err != nil {
		t.Fatalf("response %q: %v", response, err)
	}
	send(string(final))
	lines.Scan()
	if err := cmd.Wait(); err != nil || lines.Text() != "true" {
		t.Fatalf("Java's client did not accept %q: %q, %v", final, lines.Text(), err)
	}
	e.challenge, e.response, e.final = string(challenge), string(response), string(final)
	return e
}
