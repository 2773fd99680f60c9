package wire

// The bodies of requests, in the order of their opcodes.

// Append appends the request to b.
func (r *CreateRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	b = AppendBuffer(b, r.Data)
	b = AppendACLs(b, r.ACL)
	return AppendInt32(b, r.Flags)
}

// Decode reads the request. A null path is malformed.
func (r *CreateRequest) Decode(d *Decoder) {
	r.Path = d.path()
	r.Data = d.Buffer()
	r.ACL = d.ACLs()
	r.Flags = d.Int32()
}

// Append appends the request to b.
func (r *DeleteRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	return AppendInt32(b, r.Version)
}

// Decode reads the request. A null path is malformed.
func (r *DeleteRequest) Decode(d *Decoder) {
	r.Path = d.path()
	r.Version = d.Int32()
}

// Append appends the request to b.
func (r *PathWatchRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	return AppendBool(b, r.Watch)
}

// Decode reads the request. A null path is malformed. Decoder.PathWatch is the same
// without the copy of the path.
func (r *PathWatchRequest) Decode(d *Decoder) {
	r.Path = d.path()
	r.Watch = d.Bool()
}

// Append appends the request to b.
func (r *SetDataRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	b = AppendBuffer(b, r.Data)
	return AppendInt32(b, r.Version)
}

// Decode reads the request. A null path reads as "", which is no valid path to write to.
func (r *SetDataRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Data = d.Buffer()
	r.Version = d.Int32()
}

// Append appends the request to b.
func (r *SetACLRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	b = AppendACLs(b, r.ACL)
	return AppendInt32(b, r.Version)
}

// Decode reads the request. A null path reads as "", which is no valid path to write to.
func (r *SetACLRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.ACL = d.ACLs()
	r.Version = d.Int32()
}

// Append appends the request to b.
func (r *PathRequest) Append(b []byte) []byte { return AppendString(b, r.Path) }

// Decode reads the request. A null path reads as "": sync echoes whatever comes, and
// getEphemerals takes it for no prefix.
func (r *PathRequest) Decode(d *Decoder) { r.Path = d.String() }

// Append appends the request to b.
func (r *CheckRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	return AppendInt32(b, r.Version)
}

// Decode reads the request. A null path reads as "", which is no valid path.
func (r *CheckRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Version = d.Int32()
}

// Append appends the request to b.
func (r *ReconfigRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Joining)
	b = AppendString(b, r.Leaving)
	b = AppendString(b, r.NewMembers)
	return AppendInt64(b, r.CurConfigID)
}

// Decode reads the request. Clients send null for the lists that they do not use.
func (r *ReconfigRequest) Decode(d *Decoder) {
	r.Joining = d.String()
	r.Leaving = d.String()
	r.NewMembers = d.String()
	r.CurConfigID = d.Int64()
}

// Append appends the request to b.
func (r *WatchesRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	return AppendInt32(b, int32(r.Type))
}

// Decode reads the request. An unknown type is the caller's to refuse.
func (r *WatchesRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Type = WatcherType(d.Int32())
}

// Append appends the request to b.
func (r *CreateTTLRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	b = AppendBuffer(b, r.Data)
	b = AppendACLs(b, r.ACL)
	b = AppendInt32(b, r.Flags)
	return AppendInt64(b, r.TTLMs)
}

// Decode reads the request. A null path is malformed.
func (r *CreateTTLRequest) Decode(d *Decoder) {
	r.Path = d.path()
	r.Data = d.Buffer()
	r.ACL = d.ACLs()
	r.Flags = d.Int32()
	r.TTLMs = d.Int64()
}

// AppendSetWatches appends the first three lists to b: the body of opcode 101.
func (r *SetWatches2) AppendSetWatches(b []byte) []byte {
	b = AppendInt64(b, r.RelativeZxid)
	b = AppendStrings(b, r.DataWatches)
	b = AppendStrings(b, r.ExistWatches)
	return AppendStrings(b, r.ChildWatches)
}

// DecodeSetWatches reads the body of opcode 101, which has no persistent watches.
func (r *SetWatches2) DecodeSetWatches(d *Decoder) {
	r.RelativeZxid = d.Int64()
	r.DataWatches = d.Strings()
	r.ExistWatches = d.Strings()
	r.ChildWatches = d.Strings()
	r.PersistentWatches = nil
	r.PersistentRecursiveWatches = nil
}

// Append appends the body of opcode 105 to b.
func (r *SetWatches2) Append(b []byte) []byte {
	b = r.AppendSetWatches(b)
	b = AppendStrings(b, r.PersistentWatches)
	return AppendStrings(b, r.PersistentRecursiveWatches)
}

// Decode reads the body of opcode 105.
func (r *SetWatches2) Decode(d *Decoder) {
	r.DecodeSetWatches(d)
	r.PersistentWatches = d.Strings()
	r.PersistentRecursiveWatches = d.Strings()
}

// Append appends the request to b.
func (r *AddWatchRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	return AppendInt32(b, r.Mode)
}

// Decode reads the request. An unknown mode is the caller's to refuse.
func (r *AddWatchRequest) Decode(d *Decoder) {
	r.Path = d.String()
	r.Mode = d.Int32()
}
