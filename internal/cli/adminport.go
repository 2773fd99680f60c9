package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// adminLimit bounds an answer of the admin port, beside the time that it was asked to take.
const adminLimit = 15 * time.Second

// maxAdminAnswer bounds what is read of one: the sessions of a large cluster fit.
const maxAdminAnswer = 256 << 20

// adminURLs are the admin ports to ask: what -admin says, else port 8080 of every server.
func (s *settings) adminURLs() ([]string, error) {
	if s.admin != "" {
		var all []string
		for one := range strings.SplitSeq(s.admin, ",") {
			if !strings.Contains(one, "://") {
				one = "http://" + one
			}
			u, err := url.Parse(one)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
				return nil, usagef("-admin %s: write http://host:8080, or several with commas between them", s.admin)
			}
			if u.Port() == "" {
				u.Host = net.JoinHostPort(u.Hostname(), "8080")
			}
			if u.Path == "" || u.Path == "/" {
				u.Path = "/commands"
			}
			all = append(all, strings.TrimSuffix(u.String(), "/"))
		}
		return all, nil
	}
	hosts, _, _ := strings.Cut(s.servers, "/")
	var all []string
	seen := map[string]bool{}
	for h := range strings.SplitSeq(hosts, ",") {
		if name, _, err := net.SplitHostPort(h); err == nil {
			h = name
		}
		h = strings.Trim(h, "[]")
		if h != "" && !seen[h] {
			seen[h] = true
			all = append(all, "http://"+net.JoinHostPort(h, "8080")+"/commands")
		}
	}
	return all, nil
}

// authorization is the header that proves who we are: the token of the port, else the first
// digest.
func (s *settings) authorization() string {
	if s.adminToken != "" {
		return "Bearer " + s.adminToken
	}
	for _, a := range s.auths {
		if a.Scheme == "digest" {
			return "digest " + a.Auth
		}
	}
	return ""
}

// proves says whether there is anything by which a server can tell that we are the super user.
func (s *settings) proves() bool {
	return s.authorization() != "" || s.tls != nil && s.tls.CertFile != ""
}

// checkPrivate refuses to send credentials over a network in the clear. A server turns passwords
// away that come so, but then everybody on the way has read them. A token may go where -admin says
// so; the ports that are tried without it are a guess.
func (s *settings) checkPrivate(urls []string, order bool) error {
	what, auth := "the password", s.authorization()
	if strings.HasPrefix(auth, "Bearer ") {
		what, order = "the token", s.admin == ""
	}
	if auth == "" || !order {
		return nil
	}
	for _, one := range urls {
		u, err := url.Parse(one)
		if err != nil || u.Scheme == "https" || isLocal(u.Hostname()) {
			continue
		}
		return usagef("%s would go to %s in the clear: use -admin https://%s, or run the command on that machine", what, u.Hostname(), u.Host)
	}
	return nil
}

// isLocal says whether a host is this machine, and no resolver decides about that.
func isLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.IsLoopback()
}

// readAdminToken reads the token from a file, so that it stands in no list of processes.
func readAdminToken(s *settings, name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	s.adminToken = strings.TrimSpace(string(b))
	if s.adminToken == "" || strings.ContainsAny(s.adminToken, "\r\n") {
		return usagef("-admin-token-file %s: the file holds the token of zkd.adminToken and nothing else", name)
	}
	return nil
}

// adminClient speaks HTTP to the admin ports of one command.
type adminClient struct {
	http *http.Client
	auth string
}

func (s *settings) adminClient() (*adminClient, error) {
	t := &http.Transport{DisableKeepAlives: true}
	if s.tls != nil {
		c, err := s.tls.Config()
		if err != nil {
			return nil, &exitError{exitLocal, "tls: " + err.Error()}
		}
		t.TLSClientConfig = c
	}
	return &adminClient{http: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // who redirects us is no admin port
	}}, auth: s.authorization()}, nil
}

// A refusal is what an admin port says in place of an answer.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// ask asks an admin port, and decodes what it answers. The credentials go only where they can be
// needed: with an order, or to a port that wants a token for everything.
func (a *adminClient) ask(ctx context.Context, method, url string, body, to any) error {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		return err
	}
	if a.auth != "" && (method == http.MethodPost || strings.HasPrefix(a.auth, "Bearer ")) {
		r.Header.Set("Authorization", a.auth)
	}
	resp, err := a.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return &refusal{resp.StatusCode, problemOf(resp, text)}
	}
	var outcome struct {
		Error *string `json:"error"`
	}
	if json.Unmarshal(text, &outcome) == nil && outcome.Error != nil {
		return &refusal{resp.StatusCode, *outcome.Error} // an older server: it does not know the command
	}
	return json.Unmarshal(text, to)
}

// problemOf is one line that says why a request was refused.
func problemOf(resp *http.Response, text []byte) string {
	var outcome struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &outcome) == nil && outcome.Error != "" {
		return outcome.Error
	}
	const most = 500 // bytes, and so runes
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line == "" || len(line) > most {
		line = resp.Status
	}
	return printableUpTo([]byte(line), most)
}

// adminError is the error of a command that no admin port has answered as it should.
func adminError(what string, err error) error {
	var no *refusal
	switch {
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return errInterrupted
	case errors.As(err, &no) && no.status == http.StatusUnauthorized && strings.Contains(no.text, "zkd.adminToken"):
		return refusedf("%s: the admin port wants the token of zkd.adminToken: name its file with -admin-token-file", what)
	case errors.As(err, &no):
		return refusedf("%s: %s", what, no.text)
	}
	reasons := strings.ReplaceAll(err.Error(), "\n", "; ") // one line for several ports
	return &exitError{exitNoConnection, fmt.Sprintf("%s: %s; -admin names the admin ports, see admin.serverAddress and admin.serverPort", what, reasons)}
}
