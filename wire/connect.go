package wire

// Append appends the request to b, the readOnly flag only if HasReadOnly says so.
func (r *ConnectRequest) Append(b []byte) []byte {
	b = AppendInt32(b, r.ProtocolVersion)
	b = AppendInt64(b, r.LastZxidSeen)
	b = AppendInt32(b, r.TimeoutMs)
	b = AppendInt64(b, r.SessionID)
	b = AppendBuffer(b, r.Password)
	if r.HasReadOnly {
		b = AppendBool(b, r.ReadOnly)
	}
	return b
}

// Decode reads the request. The readOnly flag is there if a byte is left for it: clients
// before 3.4 and go-zookeeper do not send it. Bytes after it are ignored.
func (r *ConnectRequest) Decode(d *Decoder) {
	r.ProtocolVersion = d.Int32()
	r.LastZxidSeen = d.Int64()
	r.TimeoutMs = d.Int32()
	r.SessionID = d.Int64()
	r.Password = d.Buffer()
	r.HasReadOnly = d.Len() > 0
	r.ReadOnly = r.HasReadOnly && d.Bool()
}

// Append appends the response to b, the readOnly flag only if HasReadOnly says so.
func (r *ConnectResponse) Append(b []byte) []byte {
	b = AppendInt32(b, r.ProtocolVersion)
	b = AppendInt32(b, r.TimeoutMs)
	b = AppendInt64(b, r.SessionID)
	b = AppendBuffer(b, r.Password)
	if r.HasReadOnly {
		b = AppendBool(b, r.ReadOnly)
	}
	return b
}

// Decode reads the response; the readOnly flag is there if a byte is left for it.
func (r *ConnectResponse) Decode(d *Decoder) {
	r.ProtocolVersion = d.Int32()
	r.TimeoutMs = d.Int32()
	r.SessionID = d.Int64()
	r.Password = d.Buffer()
	r.HasReadOnly = d.Len() > 0
	r.ReadOnly = r.HasReadOnly && d.Bool()
}

// Append appends the packet to b.
func (r *AuthPacket) Append(b []byte) []byte {
	b = AppendInt32(b, r.Type)
	b = AppendString(b, r.Scheme)
	return AppendBuffer(b, r.Auth)
}

// Decode reads the packet.
func (r *AuthPacket) Decode(d *Decoder) {
	r.Type = d.Int32()
	r.Scheme = d.String()
	r.Auth = d.Buffer()
}

// Append appends the token to b.
func (r *SASLToken) Append(b []byte) []byte { return AppendBuffer(b, r.Token) }

// Decode reads the token.
func (r *SASLToken) Decode(d *Decoder) { r.Token = d.Buffer() }
