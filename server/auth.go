package server

import (
	"bytes"
	"crypto/subtle"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/server/acl"
	"github.com/zkd-project/zkd/wire"
)

// auth adds an identity to the connection. Requests read from here on carry it; the answer
// leaves in its turn, as kazoo assumes (ZooKeeper lets it overtake).
func (c *conn) auth(h wire.RequestHeader, d *wire.Decoder) error {
	var p wire.AuthPacket
	p.Decode(d)
	if d.Err() != nil {
		return c.endWith(h, 0, wire.AuthFailed)
	}
	ids, closeSilently, ok := c.s.authenticate(c, p.Scheme, p.Auth)
	if closeSilently {
		return errWrongEnsemble
	}
	if p.Scheme == "digest" && ok && c.s.missesSuper(p.Auth, ids) {
		// It is an identity like any other, but whoever tries passwords shall take long.
		c.s.stats.AuthFailures.Add(1)
		c.s.log.Warn("wrong password for the super user", "remote", c.remote)
		select {
		case <-time.After(superPenalty):
		case <-c.s.startup.Done():
		}
	}
	if !ok || !c.addIDs(ids...) {
		c.s.stats.AuthFailures.Add(1)
		return c.endWith(h, 0, wire.AuthFailed)
	}
	c.answerFrame(h, 0, wire.OK, nil)
	return nil
}

// authenticate checks the proof that came in an auth packet.
func (s *Server) authenticate(c *conn, scheme string, proof []byte) (ids []wire.ID, closeSilently, ok bool) {
	switch {
	case scheme == "digest" && proof != nil && s.cfg.Auth.DigestEnabled:
		// As text: a name that is none would get into lists, and kazoo cannot read those.
		return s.digestIDs(wire.Text(proof)), false, true
	case scheme == "ip":
		return []wire.ID{{Scheme: "ip", ID: c.remote.Addr().String()}}, false, true
	case scheme == "x509" && c.secure:
		return nil, false, len(c.x509IDs()) > 0
	case scheme == "ensemble" && s.cfg.Auth.EnsembleEnabled:
		return nil, !s.ensembleMatches(string(proof)), true
	}
	return nil, false, false
}

// digestIDs turns user:password into its identities; the super user gets one more.
func (s *Server) digestIDs(userPassword string) []wire.ID {
	id := acl.DigestID(s.cfg.Auth.DigestAlg, userPassword)
	ids := []wire.ID{{Scheme: "digest", ID: id}}
	if super := s.cfg.Auth.SuperDigest.Reveal(); super != "" && subtle.ConstantTimeCompare([]byte(id), []byte(super)) == 1 {
		ids = append(ids, wire.ID{Scheme: "super"})
	}
	return ids
}

// missesSuper says whether a proof names the super user and does not make it one.
func (s *Server) missesSuper(proof []byte, ids []wire.ID) bool {
	super, _, configured := strings.Cut(s.cfg.Auth.SuperDigest.Reveal(), ":")
	user, _, _ := bytes.Cut(proof, []byte{':'})
	return configured && string(user) == super && !acl.HasSuper(ids)
}

// addIDs replaces the identities by a longer list; readers of the old one are not disturbed.
// It returns false if the list would become too long.
func (c *conn) addIDs(ids ...wire.ID) bool {
	list := slices.Clone(*c.ids.Load())
	for _, id := range ids {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	size := 0
	for _, id := range list {
		size += len(id.Scheme) + len(id.ID)
	}
	if size > maxIdentityBytes {
		return false
	}
	c.ids.Store(&list)
	return true
}

// mustAuthenticate says whether a connection with these identities may do nothing but
// authenticate.
func (s *Server) mustAuthenticate(ids []wire.ID) bool {
	if len(s.enforcedSchemes) == 0 {
		return false
	}
	for _, id := range ids {
		if slices.Contains(s.enforcedSchemes, id.Scheme) {
			return false
		}
	}
	return true
}
