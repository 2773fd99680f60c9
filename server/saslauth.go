package server

import (
	"crypto/rand"
	"errors"
	"slices"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/server/sasl"
	"github.com/zkd-project/zkd/wire"
)

// saslExchange is the exchange of a connection, made with its first token.
type saslExchange struct {
	server *sasl.Server
}

// saslStep serves one token of opcode 102. Without configured users the answer is a null
// token, from which clients learn that this server does not authenticate them.
func (c *conn) saslStep(h wire.RequestHeader, d *wire.Decoder) error {
	var req wire.SASLToken
	req.Decode(d)
	if d.Err() != nil {
		c.answer(h, wire.MarshallingError)
		return nil
	}
	if !c.s.cfg.SASL.Enabled {
		c.answerFrame(h, 0, wire.OK, wire.AppendBuffer(nil, nil))
		return nil
	}
	reply, err := c.saslToken(req.Token)
	if err == nil {
		c.answerFrame(h, 0, wire.OK, wire.AppendBuffer(nil, reply))
		return nil
	}
	c.s.stats.AuthFailures.Add(1)
	c.s.log.Warn("SASL authentication failed", "remote", c.remote, "reason", err)
	required := slices.Contains(c.s.enforcedSchemes, acl.SchemeSASL)
	if c.s.cfg.SASL.AllowFailedClients && !required {
		c.sasl.server = nil // the client may try again
		c.answerFrame(h, 0, wire.OK, wire.AppendBuffer(nil, nil))
		return nil
	}
	code := wire.AuthFailed
	if required {
		code = wire.SessionClosedRequireSASLAuth
	}
	// Unlike other errors this one has a body: a null token.
	c.answerFrame(h, 0, code, wire.AppendBuffer(nil, nil))
	return errEnd
}

var errTooManyIDs = errors.New("the connection has too many identities")

// saslToken takes a step of the exchange and, when it is over, the identity.
func (c *conn) saslToken(token []byte) (reply []byte, err error) {
	if c.sasl.server == nil {
		c.sasl.server, err = sasl.New(sasl.Config{Lookup: c.s.saslPassword, Nonce: rand.Reader})
		if err != nil {
			return nil, err
		}
	}
	reply, done, user, err := c.sasl.server.Step(token)
	if err == nil && done && !c.addIDs(c.s.saslIDs(user)...) {
		err = errTooManyIDs
	}
	return reply, err
}

func (s *Server) saslPassword(user string) (string, bool) {
	p, ok := s.cfg.SASL.Users[user]
	return p.Reveal(), ok
}

// saslIDs are the identities of an authenticated user.
func (s *Server) saslIDs(user string) []wire.ID {
	ids := []wire.ID{{Scheme: "sasl", ID: user}}
	if slices.Contains(s.cfg.SASL.SuperUsers, user) {
		ids = append(ids, wire.ID{Scheme: "super", ID: user})
	}
	return ids
}
