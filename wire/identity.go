package wire

// Append appends the identity to b.
func (r *ID) Append(b []byte) []byte {
	b = AppendString(b, r.Scheme)
	return AppendString(b, r.ID)
}

// Decode reads the identity.
func (r *ID) Decode(d *Decoder) {
	r.Scheme = d.name()
	r.ID = d.name()
}

// name is String without a copy for the schemes, and for the id in nearly every ACL.
func (d *Decoder) name() string {
	b := d.Buffer()
	switch string(b) {
	case "world":
		return "world"
	case "anyone":
		return "anyone"
	case "auth":
		return "auth"
	case "digest":
		return "digest"
	case "ip":
		return "ip"
	case "sasl":
		return "sasl"
	case "x509":
		return "x509"
	}
	return lenientString(b)
}

// Append appends the entry to b.
func (r *ACL) Append(b []byte) []byte {
	b = AppendInt32(b, r.Perms)
	return r.ID.Append(b)
}

// Decode reads the entry.
func (r *ACL) Decode(d *Decoder) {
	r.Perms = d.Int32()
	r.ID.Decode(d)
}

// Append appends the identity to b.
func (r *ClientInfo) Append(b []byte) []byte {
	b = AppendString(b, r.Scheme)
	return AppendString(b, r.User)
}

// Decode reads the identity.
func (r *ClientInfo) Decode(d *Decoder) {
	r.Scheme = d.String()
	r.User = d.String()
}
