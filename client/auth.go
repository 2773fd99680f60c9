package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/zkd-project/zkd/wire"
)

// A credential is what an auth packet carries. Immutable.
type credential struct {
	scheme string
	auth   []byte
}

func newCredential(scheme string, auth []byte) *credential {
	return &credential{scheme: scheme, auth: append([]byte{}, auth...)}
}

func (c *credential) equal(o *credential) bool {
	return c.scheme == o.scheme && bytes.Equal(c.auth, o.auth)
}

// AddAuth gives the session one more identity, now and on every later connection. Credentials
// that are refused are forgotten: the call returns ErrAuthFailed, and the server closes the
// connection, which is made again.
func (c *Client) AddAuth(ctx context.Context, scheme string, auth []byte) error {
	cl := c.newCall(wire.OpAuth, "")
	defer cl.free()
	cred := newCredential(scheme, auth)
	cl.r.frame = appendAuth(cl.r.frame, cred)
	cl.r.auth = cred
	return cl.do(ctx, repeatAlways)
}

// authenticate runs SASL and then sends the credentials on a new connection. Refusal by the
// server is errCredentialsRefused.
func (k *core) authenticate(c *conn) error {
	if k.cfg.sasl != nil {
		if err := k.exchange(c); err != nil {
			return fmt.Errorf("sasl: %w", err)
		}
	}
	k.mu.Lock()
	auths := append([]*credential(nil), k.auths...)
	k.mu.Unlock()
	for _, cred := range auths {
		r := k.newRequest(wire.OpAuth)
		r.frame = appendAuth(r.frame, cred)
		err := c.call(r)
		r.release()
		if errors.Is(err, ErrAuthFailed) {
			return fmt.Errorf("scheme %s: %w", cred.scheme, errCredentialsRefused)
		}
		if err != nil {
			return fmt.Errorf("auth with the scheme %s: %w", cred.scheme, err)
		}
	}
	return nil
}

// SASL is a mechanism and the secrets for it. DigestMD5 is one; GSSAPI (Kerberos) needs a library
// of its own and is plugged in here.
type SASL interface {
	// Start begins an exchange on a new connection to host, the name in the list of servers.
	Start(host string) (SASLExchange, error)
}

// A SASLExchange is one run of a mechanism.
type SASLExchange interface {
	// Step takes the server's token, nil at first, and returns the next token to be sent, nil
	// for none. done says that the mechanism is satisfied, with the server too. An exchange ends
	// when it is done and has nothing to send.
	Step(token []byte) (response []byte, done bool, err error)
}

// exchange authenticates a connection by SASL.
func (k *core) exchange(c *conn) error {
	host, _, _ := net.SplitHostPort(c.server)
	x, err := k.cfg.sasl.Start(host)
	if err != nil {
		return err
	}
	var token []byte
	for i := range maxSASLSteps {
		response, done, err := x.Step(token)
		if err != nil {
			return err
		}
		if response == nil {
			if done {
				return nil
			}
			return errors.New("the mechanism has nothing to say and is not done")
		}
		if token, err = k.step(c, response); err != nil {
			return err
		}
		if token == nil {
			if i == 0 {
				return ErrNoSASL
			}
			token = []byte{} // a mechanism whose last word is ours
		}
	}
	return fmt.Errorf("no end after %d steps", maxSASLSteps)
}

// step sends one token and returns the server's, nil if it has none.
func (k *core) step(c *conn, response []byte) ([]byte, error) {
	r := k.newRequest(wire.OpSASL)
	r.frame = appendToken(r.frame, response)
	err := c.call(r)
	defer r.release()
	if errors.Is(err, ErrAuthFailed) {
		return nil, errCredentialsRefused
	}
	if err != nil {
		return nil, err
	}
	var t wire.SASLToken
	d := wire.NewDecoder(r.body)
	t.Decode(&d)
	if err := d.Err(); err != nil {
		return nil, err
	}
	return bytes.Clone(t.Token), nil
}
