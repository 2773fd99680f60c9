package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/httpport"
)

// A gate decides who is answered.
type gate struct {
	local    bool   // nobody but programs on this machine can reach the port
	address  string // that the port is bound to, as it is configured
	token    string // zkd.adminToken, "" without one
	needCert bool   // admin.needClientAuth
	certs    bool   // a certificate can be shown, and checked
}

func newGate(a *config.Admin, local, certs bool) *gate {
	return &gate{
		local: local, address: a.Address, token: a.Token.Reveal(),
		needCert: a.NeedClientAuth, certs: certs,
	}
}

// refuses returns the status and the reason for which a request is not answered, 0 if it is.
func (g *gate) refuses(r *http.Request) (status int, why string) {
	if g.hasCertificate(r) || g.hasToken(r) {
		return 0, ""
	}
	switch {
	case g.token != "":
		return http.StatusUnauthorized, "send the header Authorization: Bearer TOKEN with the token of zkd.adminToken"
	case g.needCert:
		return http.StatusUnauthorized, "show a client certificate over HTTPS"
	case !g.local && g.certs:
		return http.StatusUnauthorized, "this address is open to the network: show a client certificate over HTTPS, or set zkd.adminToken"
	case !g.local:
		return http.StatusUnauthorized, "this address is open to the network: set zkd.adminToken, or admin.serverAddress=127.0.0.1"
	case !g.ownName(r.Host):
		// A web page can give its own name the address 127.0.0.1 and so read what is here.
		return http.StatusForbidden, "ask for localhost, 127.0.0.1 or the name in admin.serverAddress: other names are refused, for the sake of browsers"
	}
	return 0, ""
}

func (g *gate) hasCertificate(r *http.Request) bool {
	s := httpport.State(r.Context())
	return s != nil && len(s.VerifiedChains) > 0
}

func (g *gate) hasToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if g.token == "" || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	// Hashes have one length: the time tells nothing about the token.
	want, got := sha256.Sum256([]byte(g.token)), sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// ownName says whether a Host header names this machine in a way that nobody else controls.
func (g *gate) ownName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "" || strings.EqualFold(host, "localhost") || strings.EqualFold(host, g.address)
}

// fromElsewhere says whether a browser sends the request for a page of somebody else.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return true
}
