package recipes

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
)

// A Codec turns values into the data of a node and back.
type Codec[T any] interface {
	Encode(v T) ([]byte, error)
	Decode(data []byte) (T, error)
}

// codec is a Codec of two functions.
type codec[T any] struct {
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
}

func (c codec[T]) Encode(v T) ([]byte, error)    { return c.encode(v) }
func (c codec[T]) Decode(data []byte) (T, error) { return c.decode(data) }

// Bytes leaves the data as it is.
func Bytes() Codec[[]byte] {
	same := func(b []byte) ([]byte, error) { return bytes.Clone(b), nil }
	return codec[[]byte]{same, same}
}

// Text is the data as a string.
func Text() Codec[string] {
	return codec[string]{
		func(s string) ([]byte, error) { return []byte(s), nil },
		func(b []byte) (string, error) { return string(b), nil },
	}
}

// JSON is what encoding/json makes of a value.
func JSON[T any]() Codec[T] {
	return codec[T]{
		func(v T) ([]byte, error) { return json.Marshal(v) },
		func(b []byte) (v T, err error) { return v, json.Unmarshal(b, &v) },
	}
}

// BigEndian is the form of Curator's DistributedAtomicLong, DistributedAtomicInteger and
// SharedCount: 8 or 4 bytes. No data is 0.
func BigEndian[T int32 | int64]() Codec[T] {
	size := binary.Size(T(0))
	return codec[T]{
		func(v T) ([]byte, error) {
			b := binary.BigEndian.AppendUint64(nil, uint64(v))
			return b[8-size:], nil
		},
		func(b []byte) (T, error) {
			switch {
			case len(b) == 0:
				return 0, nil
			case len(b) != size:
				return 0, fmt.Errorf("a number of %d bytes is expected and the node has %d: another format is in use", size, len(b))
			case size == 4:
				return T(int32(binary.BigEndian.Uint32(b))), nil
			}
			return T(binary.BigEndian.Uint64(b)), nil
		},
	}
}

// Decimal is the form of kazoo's Counter: the number as text. No data is 0.
func Decimal[T int32 | int64]() Codec[T] {
	bits := 8 * binary.Size(T(0))
	return codec[T]{
		func(v T) ([]byte, error) { return strconv.AppendInt(nil, int64(v), 10), nil },
		func(b []byte) (T, error) {
			if len(b) == 0 {
				return 0, nil
			}
			v, err := strconv.ParseInt(string(b), 10, bits)
			if err != nil {
				return 0, fmt.Errorf("a number as text is expected, another format is in use: %w", err)
			}
			return T(v), nil
		},
	}
}
