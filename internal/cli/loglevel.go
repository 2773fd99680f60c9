package cli

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// logLevels are what a server's log may be set to.
var logLevels = []string{"debug", "info", "warn", "error"}

// runLogLevel shows or changes the level of the log of every server: one that does not answer is
// an error, for who wants to see what a cluster does wants to see all of it.
func runLogLevel(ctx context.Context, c *call) error {
	urls, err := c.sh.settings.adminURLs()
	if err != nil {
		return err
	}
	method, body := http.MethodGet, any(nil)
	if len(c.args) == 1 {
		if !slices.Contains(logLevels, c.args[0]) {
			return c.wrong(c.args[0] + " is no level; it is " + strings.Join(logLevels, ", "))
		}
		if !c.sh.settings.proves() {
			return usagef("log-level %s is for the super user: give its password with -auth-file, the token of the admin port with -admin-token-file, or its certificate with -tls-cert", c.args[0])
		}
		method, body = http.MethodPost, map[string]string{"level": c.args[0]}
	}
	if err := c.sh.settings.checkPrivate(urls, method == http.MethodPost); err != nil {
		return err
	}
	a, err := c.sh.settings.adminClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	levels := make([]struct {
		Level string `json:"level"`
	}, len(urls))
	errs := make([]error, len(urls))
	parallel(len(urls), func(i int) { errs[i] = a.ask(ctx, method, urls[i]+"/log_level", body, &levels[i]) })
	for i, u := range urls {
		if errs[i] != nil {
			continue
		}
		host := strings.TrimPrefix(strings.TrimPrefix(u, "http://"), "https://")
		host, _, _ = strings.Cut(host, "/")
		switch c.format {
		case formatJSON:
			if err := c.json(map[string]string{"server": host, "level": levels[i].Level}); err != nil {
				return err
			}
		case formatRaw:
			c.printf("%s\n", levels[i].Level)
		default:
			c.printf("%s\t%s\n", host, levels[i].Level)
		}
	}
	return wrapAdmin("log-level", errors.Join(errs...))
}
