package emq

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Codec turns values into payloads and back. A payload is any bytes.
type Codec interface {
	Encode(v any) ([]byte, error)
	// Decode reads a payload into *v. It may keep the bytes.
	Decode(payload []byte, v any) error
}

// JSON is the codec of a queue for which [Encoding] names no other.
var JSON Codec = jsonCodec{}

// Raw carries payloads as they are: the queue's type is []byte or string.
var Raw Codec = rawCodec{}

type jsonCodec struct{}

func (jsonCodec) Encode(v any) ([]byte, error) { return json.Marshal(v) }

// Decode refuses bytes that are no UTF-8, for which encoding/json would put another character.
func (jsonCodec) Decode(payload []byte, v any) error {
	if !utf8.Valid(payload) {
		return errors.New("the payload is no UTF-8, as JSON is")
	}
	return json.Unmarshal(payload, v)
}

type rawCodec struct{}

func (rawCodec) Encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return nil, fmt.Errorf("emq: the codec Raw takes []byte or string, not %T", v)
}

func (rawCodec) Decode(payload []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		*v = payload
	case *string:
		*v = string(payload)
	default:
		return fmt.Errorf("emq: the codec Raw gives []byte or string, not %T", v)
	}
	return nil
}
