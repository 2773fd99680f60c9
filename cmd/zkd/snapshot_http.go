package main

import (
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

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/cli"
	"github.com/zkd-project/zkd/internal/wait"
)

const (
	defaultAdmin = "http://localhost:8080"
	// superPasswordVariable has the password, which must not be seen in the list of processes.
	superPasswordVariable = "ZKD_SUPER_PASSWORD"
	// expectTime is for how long a server may think about a request before its body is sent.
	expectTime = 10 * time.Second
	// maxAdminAnswer bounds what is read of an answer that is no backup.
	maxAdminAnswer = 1 << 20
)

// adminFlags say how to reach an admin server as the super user.
type adminFlags struct {
	server       string
	user         string
	passwordFile string
	tls          client.TLSFiles
}

func (f *adminFlags) register(c *cobra.Command) {
	l := c.Flags()
	l.StringVar(&f.user, "user", "super", "name of the super user (DigestAuthenticationProvider.superDigest)")
	l.StringVar(&f.passwordFile, "password-file", "", "file with his password; without it "+superPasswordVariable+" of the environment")
	l.StringVar(&f.tls.CAFile, "tls-ca", "", "HTTPS: file of authorities in PEM; those of the system by default")
	l.StringVar(&f.tls.CertFile, "tls-cert", "", "HTTPS: file of the certificate of the super user in PEM")
	l.StringVar(&f.tls.KeyFile, "tls-key", "", "HTTPS: file of its key in PEM")
	l.StringVar(&f.tls.ServerName, "tls-name", "", "HTTPS: the name of the server, where it differs from the host")
}

// An adminClient asks one admin server.
type adminClient struct {
	http     http.Client
	commands string // URL of the commands, without a slash at the end
	alive    string // URL that every server answers at once
	pulse    pulse
	auth     string // "": the certificate says who asks
}

func (f *adminFlags) connect() (*adminClient, error) {
	u, err := url.Parse(f.server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no URL of an admin server: write it as %s", f.server, defaultAdmin)
	}
	if u.User != nil || u.RawQuery != "" {
		return nil, errors.New("leave user and query out of the URL of the admin server: --user names the user")
	}
	path := strings.TrimSuffix(u.Path, "/")
	if path == "" {
		path = "/commands"
	}
	site := u.Scheme + "://" + u.Host
	a := &adminClient{commands: site + path, alive: site + "/livez", pulse: pulse{pulsePause, pulseLimit}}
	if err := cli.CheckKeyPair(&f.tls, "--"); err != nil {
		return nil, err
	}
	conf, err := f.tls.Config()
	if err != nil {
		return nil, err
	}
	a.http.Transport = &http.Transport{TLSClientConfig: conf, ExpectContinueTimeout: expectTime}
	a.http.CheckRedirect = func(*http.Request, []*http.Request) error {
		return errors.New("the admin server sends us elsewhere, and the password is for nobody else")
	}
	password, err := f.password()
	switch {
	case err != nil:
		return nil, err
	case password == "" && f.tls.CertFile == "":
		return nil, fmt.Errorf("this needs the super user: put his password into %s or name its file with --password-file", superPasswordVariable)
	case password == "":
		return a, nil
	case u.Scheme == "http" && !isLocal(u.Hostname()):
		return nil, fmt.Errorf("a password must not go to %s in the clear: use https://, or run the command on that machine", u.Hostname())
	}
	a.auth = "digest " + f.user + ":" + password
	return a, nil
}

func (f *adminFlags) password() (string, error) {
	if f.passwordFile == "" {
		return os.Getenv(superPasswordVariable), nil
	}
	b, err := os.ReadFile(f.passwordFile)
	if err != nil {
		return "", err
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" || strings.ContainsAny(password, "\r\n") {
		return "", fmt.Errorf("%s must have the password and nothing else", f.passwordFile)
	}
	return password, nil
}

// isLocal says whether a host is this machine, and no resolver decides about that.
func isLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.IsLoopback()
}

// do sends a request. An answer other than 200 is an error. To take or to restore a snapshot may
// last as long as it likes, while the server shows that it is alive.
func (a *adminClient) do(ctx context.Context, method, command string, query url.Values, body io.Reader, size int64) (*http.Response, error) {
	address := a.commands + "/" + command
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	ctx, stop := a.whileAlive(ctx)
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		stop()
		return nil, err
	}
	if body != nil {
		r.ContentLength = size
		r.Header.Set("Expect", "100-continue") // so that nothing is sent to who does not want it
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	if a.auth != "" {
		r.Header.Set("Authorization", a.auth)
	}
	resp, err := a.http.Do(r)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = cause
		}
		stop()
		return nil, adminError(err)
	}
	resp.Body = &aliveBody{resp.Body, ctx, stop}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, refusal(resp)
	}
	return resp, nil
}

// A pulse says when a server that is waited for is given up.
type pulse struct {
	pause time.Duration // between two looks
	limit time.Duration // for the answer to one
}

const (
	pulsePause = 10 * time.Second
	pulseLimit = 20 * time.Second
	// looksInVain are enough to give up; one may get lost on a busy machine.
	looksInVain = 3
)

var errSilent = errors.New("the server does not answer: does it run, and is this its admin port (admin.serverPort)?")

// whileAlive is a context that ends with errSilent when the server answers nothing any more. stop
// is to be called.
func (a *adminClient) whileAlive(ctx context.Context) (_ context.Context, stop context.CancelFunc) {
	return wait.WhileAlive(ctx, a.pulse.pause, looksInVain, a.looksAlive, errSilent)
}

// looksAlive says whether there is any answer: also one that does not know the page.
func (a *adminClient) looksAlive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, a.pulse.limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.alive, nil)
	if err != nil {
		return false
	}
	resp, err := a.http.Do(r)
	if resp != nil {
		_ = resp.Body.Close()
	}
	return err == nil
}

// An aliveBody is an answer of a server that is watched until it is closed.
type aliveBody struct {
	io.ReadCloser
	ctx  context.Context
	stop context.CancelFunc
}

func (b *aliveBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if cause := context.Cause(b.ctx); err != nil && errors.Is(cause, errSilent) {
		err = cause
	}
	return n, err
}

func (b *aliveBody) Close() error {
	err := b.ReadCloser.Close()
	b.stop()
	return err
}

// adminError says where an admin server is to be found.
func adminError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("%w: the admin server is meant, which has a port of its own (admin.serverPort)", err)
	}
	if errors.Is(err, io.EOF) || strings.Contains(err.Error(), "malformed HTTP") { // by something else that listens there
		return fmt.Errorf("%w: does it run, and is this its admin port (admin.serverPort)?", err)
	}
	return err
}

// refusal is what a server says instead of doing it.
func refusal(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer))
	var answer struct{ Error string }
	if json.Unmarshal(b, &answer) == nil && answer.Error != "" {
		return fmt.Errorf("the server refuses: %s (HTTP status %d)", answer.Error, resp.StatusCode)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return fmt.Errorf("the admin server answers with HTTP status %d: %.200q", resp.StatusCode, line)
}
