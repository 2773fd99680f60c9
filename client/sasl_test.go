package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zkd-project/zkd/wire"
)

// What Java's DIGEST-MD5 client answered to these challenges, and what it then accepted.
var recordedDigests = []struct{ user, password, cnonce, challenge, response, final string }{
	{
		"bob", "bobsecret", "y3Fx++dJ1mOqk0Df9W9Daq7Lq8m3q09gp5CltcL/",
		`realm="zk-sasl-md5",nonce="oDz/AKA8/wCgPP8AoDz/AKA8/wCgPP8AoDz/AKA8",charset=utf-8,algorithm=md5-sess`,
		`charset=utf-8,username="bob",realm="zk-sasl-md5",nonce="oDz/AKA8/wCgPP8AoDz/AKA8/wCgPP8AoDz/AKA8",nc=00000001,cnonce="y3Fx++dJ1mOqk0Df9W9Daq7Lq8m3q09gp5CltcL/",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=010ea09579b0adb532db67d7d58bf6dc,qop=auth`,
		`rspauth=be6fe54a7f71419aec4d20ecbb1d1dbc`,
	},
	{
		"jürgen", "pässwörd", "00Qd5cjOKfGax+50eQEJM16FX4cTTkaa6EdPxmau",
		`realm="zk-sasl-md5",nonce="ojz/AqI8/wKiPP8Cojz/AqI8/wKiPP8Cojz/AqI8",charset=utf-8,algorithm=md5-sess`,
		`charset=utf-8,username="jürgen",realm="zk-sasl-md5",nonce="ojz/AqI8/wKiPP8Cojz/AqI8/wKiPP8Cojz/AqI8",nc=00000001,cnonce="00Qd5cjOKfGax+50eQEJM16FX4cTTkaa6EdPxmau",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=325cc04d843f88ee8f5e678b0f61766d,qop=auth`,
		`rspauth=775d70db11501db09c2ea259a76d495b`,
	},
	{
		"mixed", "ключ é", "I2AvSuCcDeEv/c4FW0poMpUcYwvmDGcK1cdqZxb1",
		`realm="zk-sasl-md5",nonce="pTz/BaU8/wWlPP8FpTz/BaU8/wWlPP8FpTz/BaU8",charset=utf-8,algorithm=md5-sess`,
		`charset=utf-8,username="mixed",realm="zk-sasl-md5",nonce="pTz/BaU8/wWlPP8FpTz/BaU8/wWlPP8FpTz/BaU8",nc=00000001,cnonce="I2AvSuCcDeEv/c4FW0poMpUcYwvmDGcK1cdqZxb1",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=8dacff6ce235ae57ea4c62568aa1854a,qop=auth`,
		`rspauth=a49f44fdc249526e6e88466ed6c97126`,
	},
}

func TestDigestMD5AnswersAsJavaDoes(t *testing.T) {
	for _, r := range recordedDigests {
		x := &digestExchange{m: &digestMD5{r.user, r.password}, cnonce: r.cnonce}
		first, done, err := x.Step(nil)
		require.NoError(t, err)
		require.NotNil(t, first)
		require.Empty(t, first)
		require.False(t, done)
		response, done, err := x.Step([]byte(r.challenge))
		require.NoError(t, err)
		require.False(t, done)
		require.Equal(t, r.response, string(response))
		last, done, err := x.Step([]byte(r.final))
		require.NoError(t, err)
		require.True(t, done)
		require.Nil(t, last)
	}
}

func TestDigestMD5RefusesBadServers(t *testing.T) {
	for name, challenge := range map[string]string{
		"no nonce":      `realm="x",algorithm=md5-sess`,
		"algorithm":     `nonce="x",algorithm=md5`,
		"encryption":    `nonce="x",algorithm=md5-sess,qop="auth-conf"`,
		"quote":         `nonce="x,algorithm=md5-sess`,
		"no value":      `nonce`,
		"empty":         ``,
		"only commas":   `,,,`,
		"stray escapes": `nonce="\"\`,
	} {
		x, err := DigestMD5("u", "p").Start("host")
		require.NoError(t, err)
		_, _, err = x.Step(nil)
		require.NoError(t, err)
		_, _, err = x.Step([]byte(challenge))
		require.Error(t, err, name)
	}
	x, _ := DigestMD5("u", "p").Start("host")
	_, _, _ = x.Step(nil)
	_, _, err := x.Step([]byte(recordedDigests[0].challenge))
	require.NoError(t, err)
	_, _, err = x.Step([]byte("rspauth=00000000000000000000000000000000"))
	require.ErrorContains(t, err, "did not prove")
}

func FuzzDigestChallenge(f *testing.F) {
	f.Add([]byte(recordedDigests[0].challenge), []byte(recordedDigests[0].final))
	f.Add([]byte(`a="\`), []byte(`=,=`))
	f.Fuzz(func(t *testing.T, challenge, final []byte) {
		x := &digestExchange{m: &digestMD5{"u", "p"}, cnonce: "c"}
		_, _, _ = x.Step(nil)
		if _, _, err := x.Step(challenge); err != nil {
			return
		}
		if _, done, err := x.Step(final); done == (err != nil) {
			t.Fatal("done and failed, or neither")
		}
	})
}

// saslServer answers tokens one by one; nil is a null token, and the end of the list a refusal.
func saslServer(got *seen, tokens ...[]byte) func(*fakeConn) {
	return script(func(c *fakeConn) {
		c.accept()
		n := 0
		c.serve(func(r fakeRequest) bool {
			got.add(r)
			if r.Op != wire.OpSASL {
				return false
			}
			if n == len(tokens) {
				c.reply(r, wire.AuthFailed)
				panic(errEnded)
			}
			c.reply(r, wire.OK, wire.AppendBuffer(nil, tokens[n]))
			n++
			return true
		})
	})
}

// A mechanism for the test: what it says, in order.
type mechanism struct {
	says [][]byte
	host string
	err  error
}

func (m *mechanism) Start(host string) (SASLExchange, error) {
	m.host = host
	return &steps{m.says, m.err}, m.err
}

type steps struct {
	says [][]byte
	err  error
}

func (s *steps) Step([]byte) ([]byte, bool, error) {
	if len(s.says) == 0 {
		return nil, true, s.err
	}
	say := s.says[0]
	s.says = s.says[1:]
	return say, false, nil
}

func TestSASLComesBeforeEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got seen
		m := &mechanism{says: [][]byte{{}, []byte("me")}}
		f := newFake(t, saslServer(&got, []byte("who?"), []byte("ok")))
		c := f.client(WithSASL(m), WithAuth("digest", []byte("a:b")))
		require.NoError(t, c.Sync(testContext(t), "/"))
		require.Equal(t, []wire.OpCode{wire.OpSASL, wire.OpSASL, wire.OpAuth, wire.OpSync}, got.ops())
		require.Equal(t, "127.0.0.1", m.host)
		require.Equal(t, wire.AppendBuffer(nil, []byte{}), got.all[0].body, "empty, not null")
	})
}

func TestSASLFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		says   [][]byte
		tokens [][]byte
		err    error
		want   string
		final  bool
	}{
		"refused":             {says: [][]byte{{}}, want: "refuses the credentials", final: true},
		"not offered":         {says: [][]byte{{}}, tokens: [][]byte{nil}, want: "does not offer SASL"},
		"the mechanism fails": {err: errors.New("no ticket"), want: "no ticket"},
		"no end":              {says: make([][]byte, 0), tokens: nil, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "no end" {
				for range 100 {
					tc.says, tc.tokens = append(tc.says, []byte("x")), append(tc.tokens, []byte("y"))
				}
				tc.want = "no end after"
			}
			synctest.Test(t, func(t *testing.T) {
				var got seen
				f := newFake(t, saslServer(&got, tc.tokens...))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := Dial(ctx, "127.0.0.1:1", f.options(WithSASL(&mechanism{says: tc.says, err: tc.err}))...)
				require.ErrorContains(t, err, tc.want)
				require.Equal(t, tc.final, errors.Is(err, ErrAuthFailed))
			})
		})
	}
}
