package wire

// Append appends the header to b.
func (r *RequestHeader) Append(b []byte) []byte {
	b = AppendInt32(b, r.Xid)
	return AppendInt32(b, int32(r.Op))
}

// Decode reads the header.
func (r *RequestHeader) Decode(d *Decoder) {
	r.Xid = d.Int32()
	r.Op = OpCode(d.Int32())
}

// Append appends the header to b.
func (r *ReplyHeader) Append(b []byte) []byte {
	return AppendReply(b, r.Xid, r.Zxid, r.Err)
}

// Decode reads the header.
func (r *ReplyHeader) Decode(d *Decoder) {
	r.Xid = d.Int32()
	r.Zxid = d.Int64()
	r.Err = Code(d.Int32())
}

// AppendReply appends a reply header: 16 bytes. A body may follow only if err is OK.
func AppendReply(b []byte, xid int32, zxid int64, err Code) []byte {
	b = AppendInt32(b, xid)
	b = AppendInt64(b, zxid)
	return AppendInt32(b, int32(err))
}

// Append appends the event to b.
func (r *WatcherEvent) Append(b []byte) []byte {
	b = AppendInt32(b, int32(r.Type))
	b = AppendInt32(b, r.State)
	return AppendString(b, r.Path)
}

// Decode reads the event.
func (r *WatcherEvent) Decode(d *Decoder) {
	r.Type = EventType(d.Int32())
	r.State = d.Int32()
	r.Path = d.String()
}

// AppendEvent appends the complete frame of a notification, its length included. zxid is
// that of the change since 3.9.0; before, and for events that setWatches fires, it is -1.
func AppendEvent(b []byte, zxid int64, t EventType, path string) []byte {
	b, mark := AppendFrame(b)
	b = AppendReply(b, XidNotification, zxid, OK)
	b = AppendInt32(b, int32(t))
	b = AppendInt32(b, KeeperStateSyncConnected)
	b = AppendString(b, path)
	FinishFrame(b, mark)
	return b
}
