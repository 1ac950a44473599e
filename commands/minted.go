package commands

// A canonical id has 14 bytes: JOB, and 11 base-62 digits of a 63-bit snowflake whose bits from 22 up are the
// milliseconds since 2024-01-01 UTC.
const (
	canonicalLen  = 14
	mintedShift   = 22
	mintedSince   = 1704067200000 // 2024-01-01 UTC in Unix ms
	snowflakeBase = 62
)

// minted is the Unix time, in ms, at which a canonical id was made. ok is false for any other id.
func minted(id string) (millis int64, ok bool) {
	if len(id) != canonicalLen || !IsJob(id) {
		return 0, false
	}
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
		// A number that would leave 63 bits is no id; this far, one more digit stays within 64.
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
