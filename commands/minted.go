package commands

// Two forms of ids contain the time at which they were made. A canonical id has 14 bytes: JOB, and 11 base-62 digits of a
// 63-bit snowflake, whose bits from 22 up are the milliseconds since 2024-01-01 UTC. A ULID id has 29 bytes: JOB, and 26
// digits of Crockford's base 32, in upper or lower case, of which the first ten are the Unix ms.
const (
	canonicalLen  = 14
	mintedShift   = 22
	mintedSince   = 1704067200000 // 2024-01-01 UTC in Unix ms
	snowflakeBase = 62

	ulidLen  = 29
	ulidTime = len(jobPrefix) + 10 // where the digits of the time end
)

// minted is the Unix time, in ms, at which an id of such a form was made. ok is false for any other id.
func minted(id string) (millis int64, ok bool) {
	switch {
	case !IsJob(id):
		return 0, false
	case len(id) == canonicalLen:
		return mintedSnowflake(id)
	case len(id) == ulidLen:
		return mintedULID(id)
	}
	return 0, false
}

func mintedSnowflake(id string) (millis int64, ok bool) {
	var n uint64
	for i := len(jobPrefix); i < len(id); i++ {
		var digit byte
		switch b := id[i]; {
		case '0' <= b && b <= '9':
			digit = b - '0'
		case 'A' <= b && b <= 'Z':
			digit = b - 'A' + 10
		case 'a' <= b && b <= 'z':
			digit = b - 'a' + 36
		default:
			return 0, false
		}
		// A number of more than 63 bits is not an id. Up to this limit, one more digit stays within 64 bits.
		if n > (1<<63-1)/snowflakeBase {
			return 0, false
		}
		n = n*snowflakeBase + uint64(digit)
	}
	if n > 1<<63-1 {
		return 0, false
	}
	return int64(n>>mintedShift) + mintedSince, true
}

func mintedULID(id string) (millis int64, ok bool) {
	if id[len(jobPrefix)] > '7' { // it would have more than 128 bits
		return 0, false
	}
	for i := len(jobPrefix); i < len(id); i++ {
		digit, ok := crockford(id[i])
		if !ok {
			return 0, false
		}
		if i < ulidTime {
			millis = millis<<5 | int64(digit)
		}
	}
	return millis, true
}

// crockford is the value of a digit of Crockford's base 32, which has no I, L, O and U.
func crockford(b byte) (digit byte, ok bool) {
	if 'a' <= b && b <= 'z' {
		b -= 'a' - 'A'
	}
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'A' <= b && b <= 'H':
		return b - 'A' + 10, true
	case b == 'J' || b == 'K':
		return b - 'J' + 18, true
	case b == 'M' || b == 'N':
		return b - 'M' + 20, true
	case 'P' <= b && b <= 'T':
		return b - 'P' + 22, true
	case 'V' <= b && b <= 'Z':
		return b - 'V' + 27, true
	}
	return 0, false
}
