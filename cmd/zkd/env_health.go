package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/fourletter"
)

func healthcheckCommand() *cobra.Command {
	var file string
	var live bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask the server on this machine whether it serves clients; exit code 0: it does",
		Long: `Ask the server on this machine whether it serves clients; exit code 0: it does.

It looks for the server's ports where the server itself does: in the file of --config, or, as
docker-entrypoint, in /conf/zoo.cfg and the environment. The client port is asked for srvr; where
there is none, or none that answers, the admin server for /readyz. --live asks only whether the
process answers: a server that has no leader is alive, and to start it anew would not help.`,
		Example: "  zkd healthcheck --config /etc/zkd/zoo.cfg\n  zkd healthcheck --live",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := runningConfig(file)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			return health(ctx, cfg, live)
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "configuration file of the server, a zoo.cfg")
	c.Flags().BoolVar(&live, "live", false, "ask only whether the process answers")
	c.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return c
}

// runningConfig is the configuration that the server has found, if it has been started with
// the same file and environment.
func runningConfig(file string) (*config.Config, error) {
	env := os.Environ()
	if file != "" {
		cfg, _, err := config.Load(config.Sources{File: file, Env: env})
		return cfg, err
	}
	c, err := newContainer(env, os.Hostname)
	if err != nil {
		return nil, err
	}
	return c.load(env)
}

// health asks the client port, which is this server's own: it does not run without it. The admin port
// may be that of another program, or of another server on this machine, since a server goes on if it
// is taken. It is asked where there is no plain client port, or where that does not answer, as when
// there are too many connections.
func health(ctx context.Context, cfg *config.Config, live bool) error {
	withAdmin := cfg.Admin.Enabled && cfg.Admin.Port > 0
	var reasons []string
	if cfg.ClientPort > 0 {
		asking, cancel := ctx, context.CancelFunc(func() {})
		if deadline, ok := ctx.Deadline(); ok && withAdmin { // leave time for the other
			asking, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		}
		answered, err := askClientPort(asking, reach(cfg.ClientPortAddress, cfg.ClientPort), live)
		cancel()
		if answered {
			return err
		}
		reasons = append(reasons, err.Error())
	}
	if withAdmin {
		answered, err := askAdmin(ctx, &cfg.Admin, live)
		if answered {
			return err
		}
		reasons = append(reasons, err.Error())
	}
	if len(reasons) == 0 {
		return errors.New("there is neither a plain client port nor an admin port to ask")
	}
	return errors.New(strings.Join(reasons, "; "))
}

// reach is where a program on the same machine finds a port.
func reach(host string, port int) string {
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && ip.IsUnspecified() && ip.Is4():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

func askAdmin(ctx context.Context, a *config.Admin, live bool) (answered bool, err error) {
	scheme, page := "http://", "/readyz"
	if a.ForceHTTPS {
		scheme = "https://"
	}
	if live {
		page = "/livez"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+reach(a.Address, a.Port)+page, nil)
	if err != nil {
		return false, err
	}
	// Nothing secret is sent, and who could answer in place of the server on this machine
	// could as well replace this program.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	r, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(r.Body, 4096)) // what has come says enough
	text := strings.TrimSpace(string(body))
	switch {
	case r.StatusCode == http.StatusOK && text == "ok":
		return true, nil
	case r.StatusCode == http.StatusServiceUnavailable && strings.HasPrefix(text, "not "):
		return true, fmt.Errorf("%s: %s", req.URL, text)
	}
	return false, fmt.Errorf("%s is answered by another program: %s", req.URL, r.Status)
}

// askClientPort uses srvr, the only word that cannot be switched off.
func askClientPort(ctx context.Context, addr string, live bool) (answered bool, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return false, err
		}
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return false, err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 4096))
	text := strings.TrimSpace(string(answer))
	switch {
	case text == "" && err != nil:
		return false, fmt.Errorf("%s does not answer: %w", addr, err)
	case text == "":
		return false, fmt.Errorf("%s does not answer", addr)
	case live:
		return true, nil
	case !strings.HasPrefix(text, "Zookeeper version:"):
		return true, fmt.Errorf("%s: %s", addr, text)
	case strings.Contains(text, "\nMode: "+fourletter.ModeReadOnly):
		return true, fmt.Errorf("%s: not serving: there is no leader, it only reads", addr)
	}
	return true, nil
}
