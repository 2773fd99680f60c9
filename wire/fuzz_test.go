package wire

import (
	"reflect"
	"testing"
)

// fuzz checks that what decodes as a T decodes to the same again after encoding. (Equal
// bytes would be too much: a null string comes back as length 0.) The seeds are all
// samples, since a decoder must survive any bytes.
func fuzz[T any, P interface {
	*T
	record
}](f *testing.F,
) {
	f.Add([]byte(nil))
	for _, r := range samples() {
		f.Add(r.Append(nil))
	}
	f.Add(AppendMulti(nil, writes()))
	f.Add(AppendMulti(nil, reads()))
	f.Add(AppendMultiResults(nil, results()))
	f.Add(AppendClientInfos(AppendACLs(AppendStrings(nil, []string{"a", ""}), worldACL), whoAmI))
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second T
		d := NewDecoder(b)
		P(&first).Decode(&d)
		if d.Err() != nil {
			if d.Len() != 0 {
				t.Errorf("%d bytes are left after an error", d.Len())
			}
			return
		}
		d = NewDecoder(P(&first).Append(nil))
		P(&second).Decode(&d)
		if d.Err() != nil || d.Len() != 0 {
			t.Errorf("%+v does not decode again: %v, %d bytes left", first, d.Err(), d.Len())
		}
		if !reflect.DeepEqual(first, second) {
			t.Errorf("decoded %+v, and after encoding %+v", first, second)
		}
	})
}

// Vectors and multis as records, so that they can be fuzzed alike.
type (
	stringsRecord     struct{ Strings []string }
	aclsRecord        struct{ ACLs []ACL }
	clientInfosRecord struct{ Infos []ClientInfo }
	multiReadRecord   struct{ Ops []MultiOp }
	resultsRecord     struct{ Results []MultiResult }
)

func (r *stringsRecord) Append(b []byte) []byte     { return AppendStrings(b, r.Strings) }
func (r *stringsRecord) Decode(d *Decoder)          { r.Strings = d.Strings() }
func (r *aclsRecord) Append(b []byte) []byte        { return AppendACLs(b, r.ACLs) }
func (r *aclsRecord) Decode(d *Decoder)             { r.ACLs = d.ACLs() }
func (r *clientInfosRecord) Append(b []byte) []byte { return AppendClientInfos(b, r.Infos) }
func (r *clientInfosRecord) Decode(d *Decoder)      { r.Infos = d.ClientInfos() }
func (r *multiReadRecord) Append(b []byte) []byte   { return AppendMulti(b, r.Ops) }
func (r *multiReadRecord) Decode(d *Decoder)        { r.Ops, _ = DecodeMulti(d, IsMultiRead, 0) }
func (r *resultsRecord) Append(b []byte) []byte     { return AppendMultiResults(b, r.Results) }
func (r *resultsRecord) Decode(d *Decoder)          { r.Results, _ = DecodeMultiResults(d) }

func FuzzRequestHeader(f *testing.F)    { fuzz[RequestHeader](f) }
func FuzzReplyHeader(f *testing.F)      { fuzz[ReplyHeader](f) }
func FuzzConnectRequest(f *testing.F)   { fuzz[ConnectRequest](f) }
func FuzzConnectResponse(f *testing.F)  { fuzz[ConnectResponse](f) }
func FuzzCreateRequest(f *testing.F)    { fuzz[CreateRequest](f) }
func FuzzCreateTTLRequest(f *testing.F) { fuzz[CreateTTLRequest](f) }
func FuzzDeleteRequest(f *testing.F)    { fuzz[DeleteRequest](f) }
func FuzzSetDataRequest(f *testing.F)   { fuzz[SetDataRequest](f) }
func FuzzSetACLRequest(f *testing.F)    { fuzz[SetACLRequest](f) }
func FuzzCheckRequest(f *testing.F)     { fuzz[CheckRequest](f) }
func FuzzPathWatchRequest(f *testing.F) { fuzz[PathWatchRequest](f) }
func FuzzPathRequest(f *testing.F)      { fuzz[PathRequest](f) }
func FuzzReconfigRequest(f *testing.F)  { fuzz[ReconfigRequest](f) }
func FuzzWatchesRequest(f *testing.F)   { fuzz[WatchesRequest](f) }
func FuzzAddWatchRequest(f *testing.F)  { fuzz[AddWatchRequest](f) }
func FuzzSetWatches2(f *testing.F)      { fuzz[SetWatches2](f) }
func FuzzSetWatches(f *testing.F)       { fuzz[setWatches1](f) }
func FuzzAuthPacket(f *testing.F)       { fuzz[AuthPacket](f) }
func FuzzSASLToken(f *testing.F)        { fuzz[SASLToken](f) }
func FuzzClientInfo(f *testing.F)       { fuzz[ClientInfo](f) }
func FuzzClientInfos(f *testing.F)      { fuzz[clientInfosRecord](f) }
func FuzzID(f *testing.F)               { fuzz[ID](f) }
func FuzzACL(f *testing.F)              { fuzz[ACL](f) }
func FuzzACLs(f *testing.F)             { fuzz[aclsRecord](f) }
func FuzzStrings(f *testing.F)          { fuzz[stringsRecord](f) }
func FuzzStat(f *testing.F)             { fuzz[Stat](f) }
func FuzzWatcherEvent(f *testing.F)     { fuzz[WatcherEvent](f) }
func FuzzMultiHeader(f *testing.F)      { fuzz[MultiHeader](f) }
func FuzzMulti(f *testing.F)            { fuzz[multiRecord](f) }
func FuzzMultiRead(f *testing.F)        { fuzz[multiReadRecord](f) }
func FuzzMultiResults(f *testing.F)     { fuzz[resultsRecord](f) }

// FuzzPathWatch: the form without a copy accepts and reads the same as the record.
func FuzzPathWatch(f *testing.F) {
	for _, r := range samples() {
		f.Add(r.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, d2 := NewDecoder(b), NewDecoder(b)
		var r PathWatchRequest
		r.Decode(&d)
		path, watch := d2.PathWatch()
		if (d.Err() == nil) != (d2.Err() == nil) || d.Len() != d2.Len() {
			t.Fatalf("%v with %d left, and %v with %d left", d.Err(), d.Len(), d2.Err(), d2.Len())
		}
		if d.Err() == nil && (lenientString(path) != r.Path || watch != r.Watch) {
			t.Errorf("%q, %v and %+v", path, watch, r)
		}
	})
}
