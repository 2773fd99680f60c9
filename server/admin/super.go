package admin

import (
	"context"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/httpport"
	"github.com/zkd-project/zkd/internal/tlsconf"
	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/stats"
)

const (
	// wrongPasswordPause comes before the answer to a wrong password, one at a time.
	wrongPasswordPause = time.Second
	// maxGuessers may wait for that; more are turned away whatever their password is, so that
	// guessers do not use up the requests that this port answers at a time.
	maxGuessers = 4
)

// A superUser recognises requests of the super user, by the same proofs as the client port does.
type superUser struct {
	auth     *config.Auth
	stats    *stats.Server
	guessing sync.Mutex // held while a wrong password is answered
	guessers atomic.Int32
}

// refuses says why a request is not the super user's, "" if it is.
func (u *superUser) refuses(r *http.Request) (status int, why string) {
	password := u.auth.DigestEnabled && u.auth.SuperDigest.Reveal() != ""
	switch {
	case fromElsewhere(r):
		return http.StatusForbidden, "a page of another site may not ask for it"
	case u.certified(r):
		return 0, ""
	case !password && u.auth.X509SuperUser == "":
		return http.StatusForbidden, "this is for the super user, and there is none: set DigestAuthenticationProvider.superDigest"
	case r.Header.Get("Authorization") == "":
		return http.StatusUnauthorized, "send the header Authorization: digest super:PASSWORD, or the certificate of the super user"
	case !private(r):
		return http.StatusForbidden, "a password must not come in the clear: ask by HTTPS, or on the machine of the server"
	}
	user, proof, ok := credentials(r)
	super, _, _ := strings.Cut(u.auth.SuperDigest.Reveal(), ":")
	switch {
	case !ok:
		return http.StatusUnauthorized, "this is for the super user: the header Authorization must be digest super:PASSWORD"
	case !password || user != super:
		return http.StatusForbidden, "this is for the super user"
	}
	defer u.guessers.Add(-1)
	if u.guessers.Add(1) > maxGuessers {
		return http.StatusTooManyRequests, "wrong passwords are being tried: come again in some seconds"
	}
	id := acl.DigestID(u.auth.DigestAlg, proof)
	if subtle.ConstantTimeCompare([]byte(id), []byte(u.auth.SuperDigest.Reveal())) != 1 {
		u.stats.AuthFailures.Add(1)
		u.pause(r.Context())
		return http.StatusUnauthorized, "wrong password for the super user"
	}
	return 0, ""
}

// pause makes guessing take long, also from many connections.
func (u *superUser) pause(ctx context.Context) {
	u.guessing.Lock()
	defer u.guessing.Unlock()
	t := time.NewTimer(wrongPasswordPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// credentials are the user and user:password of a request.
func credentials(r *http.Request) (user, proof string, ok bool) {
	if user, password, ok := r.BasicAuth(); ok {
		return user, user + ":" + password, true
	}
	scheme, proof, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	user, _, ok = strings.Cut(proof, ":")
	return user, proof, ok && strings.EqualFold(scheme, "digest")
}

// private says whether nobody on the way can read the request.
func private(r *http.Request) bool {
	if httpport.State(r.Context()) != nil {
		return true
	}
	return asker(r).IsLoopback()
}

// certified says whether the certificate of the super user was shown, and checked.
func (u *superUser) certified(r *http.Request) bool {
	s := httpport.State(r.Context())
	return u.auth.X509SuperUser != "" && s != nil && len(s.VerifiedChains) > 0 &&
		tlsconf.SubjectDN(s.PeerCertificates[0]) == u.auth.X509SuperUser
}
