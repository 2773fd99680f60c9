package config

import (
	"fmt"
	"io"
	"log/slog"
)

// hidden stands for the text of a secret wherever one could be printed.
const hidden = "***"

// A Secret is a password or a digest of one. However it is printed, logged or marshalled,
// what comes out is "***" (nothing for an empty one); only Reveal gives the text away.
type Secret struct{ text string }

// NewSecret wraps text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text itself. Do not log it.
func (s Secret) Reveal() string { return s.text }

// IsSet says whether there is a text at all.
func (s Secret) IsSet() bool { return s.text != "" }

// String returns "***", or "" for an empty secret.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return hidden
}

// Format prints the same for every verb: %v, %+v, %#v, %q, %x …
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue is what log/slog prints.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is what encoding/json and others write.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
