package operator

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Real errors, and what is left of them.
var normalised = []struct{ text, want string }{
	// Go
	{`dial tcp 10.0.3.17:5432: connect: connection refused`, `dial tcp ADDR: connect: connection refused`},
	{`dial tcp [::1]:6379: connect: connection refused`, `dial tcp ADDR: connect: connection refused`},
	{`dial tcp [2001:db8::1:7]:443: i/o timeout`, `dial tcp ADDR: i/o timeout`},
	{`read tcp 10.0.0.1:51234->10.0.0.2:5432: read: connection reset by peer`, `read tcp ADDR->ADDR: read: connection reset by peer`},
	{`dial tcp: lookup db-7.internal.example.com on 127.0.0.11:53: no such host`, `dial tcp: lookup ADDR on ADDR: no such host`},
	{`dial tcp: lookup redis: no such host`, `dial tcp: lookup ADDR: no such host`},
	{`Get "https://api.example.com/v1/users/42": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`,
		`Get "…": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`},
	{`Post "https://hooks.example.com/abc": x509: certificate has expired or is not yet valid: current time 2025-11-30T08:00:00Z is after 2025-11-01T00:00:00Z`,
		`Post "…": x509: certificate has expired or is not yet valid: current time TIME is after TIME`},
	{`strconv.Atoi: parsing "12a": invalid syntax`, `strconv.Atoi: parsing "…": invalid syntax`},
	{`open /var/spool/mail/4711.eml: no such file or directory`, `open /var/spool/mail/N.eml: no such file or directory`},
	{"panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:12 +0x1d",
		`panic: runtime error: index out of range [N] with length N goroutine N [running]: main.main()`},
	{`rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp 10.1.2.3:443: connect: connection refused"`,
		`rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp ADDR: connect: connection refused"`},
	{`took 1m30.5s, more than 30s`, `took N, more than N`},
	{`exit status 137`, `exit status 137`},
	{`curl: (6) Could not resolve host: api.example.com`, `curl: (N) Could not resolve host: ADDR`},
	{`signal: killed after 3 tries`, `signal: killed after N tries`},
	{`json: cannot unmarshal string into Go struct field Order.items.qty of type int64`, `json: cannot unmarshal string into Go struct field Order.items.qty of type int64`},
	{`unexpected EOF at offset 0x1F3a`, `unexpected EOF at offset ID`},
	// Python
	{"Traceback (most recent call last):\n  File \"/app/worker.py\", line 42, in run\n    handle(job)\nValueError: invalid literal for int() with base 10: 'x7'",
		`ValueError: invalid literal for int() with base N: '…'`},
	{`HTTPSConnectionPool(host='api.example.com', port=443): Max retries exceeded with url: /v1/7 (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f3b2c1d5e80>: Failed to establish a new connection: [Errno 111] Connection refused'))`,
		`HTTPSConnectionPool(host='…', port=N): Max retries exceeded with url: /vN/N (Caused by NewConnectionError('<urllib3.connection.HTTP … d to establish a new connection: [Errno 111] Connection refused'))`},
	{`KeyError: 'customer_id'`, `KeyError: '…'`},
	{`[Errno 2] No such file or directory: '/tmp/x 1.csv'`, `[Errno 2] No such file or directory: '…'`},
	{`'utf-8' codec can't decode byte 0xff in position 0: invalid start byte`, `'…' codec can't decode byte ID in position N: invalid start byte`},
	// Node
	{"Error: connect ECONNREFUSED 127.0.0.1:6379\n    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1555:16)", `Error: connect ECONNREFUSED ADDR`},
	{`getaddrinfo ENOTFOUND smtp.example.com`, `getaddrinfo ENOTFOUND ADDR`},
	{`Request failed with status code 429`, `Request failed with status code 429`},
	{`Unexpected token } in JSON at position 1834`, `Unexpected token } in JSON at position N`},
	{`Cannot read properties of undefined (reading 'id')`, `Cannot read properties of undefined (reading '…')`},
	{`timeout of 30000ms exceeded`, `timeout of N exceeded`},
	// Java
	{"java.net.ConnectException: Connection refused (Connection refused)\n\tat java.base/java.net.PlainSocketImpl.socketConnect(Native Method)\nCaused by: java.io.IOException: broken",
		`java.net.ConnectException: Connection refused (Connection refused) Caused by: java.io.IOException: broken`},
	{`java.lang.NullPointerException: Cannot invoke "com.acme.Order.getId()" because "order" is null`, `java.lang.NullPointerException: Cannot invoke "…" because "…" is null`},
	{`com.acme.OrderException: order 9f8b7c6d-1234-4abc-9def-0123456789ab not found`, `com.acme.OrderException: order ID not found`},
	// HTTP
	{`unexpected status 404 from https://api.example.com/users/17`, `unexpected status 404 from URL`},
	{`unexpected status 500 from https://api.example.com/users/18`, `unexpected status 500 from URL`},
	{`HTTP/1.1 503 Service Unavailable`, `HTTP/1.1 503 Service Unavailable`},
	{`502 Bad Gateway: upstream 10.2.3.4:8080`, `502 Bad Gateway: upstream ADDR`},
	{`server answered 503 after 12 tries`, `server answered 503 after N tries`},
	{`{"status":404,"message":"user 17 not found","request_id":"a1b2c3"}`, `{"status":404,"message":"user N not found","request_id":"…"}`},
	{`{"error": {"code": 400, "message": "amount must be positive, got -7"}}`, `{"error": {"code": 400, "message": "amount must be positive, got -N"}}`},
	// SMTP
	{`550 5.1.1 <bob@example.com>: Recipient address rejected: User unknown in virtual mailbox table`, `550 5.1.1 <MAIL>: Recipient address rejected: User unknown in virtual mailbox table`},
	{`452 4.2.2 The email account that you tried to reach is over quota. h12-20020a05si123456`, `452 4.2.2 The email account that you tried to reach is over quota. hN-ID`},
	{`421 Service not available`, `421 Service not available`},
	// SQL
	{`pq: duplicate key value violates unique constraint "users_email_key"`, `pq: duplicate key value violates unique constraint "…"`},
	{`ERROR: deadlock detected (SQLSTATE 40P01)`, `ERROR: deadlock detected (SQLSTATE 40P01)`},
	{`ERROR: duplicate key value violates unique constraint "a" (SQLSTATE 23505)`, `ERROR: duplicate key value violates unique constraint "…" (SQLSTATE 23505)`},
	{`Error 1062 (23000): Duplicate entry 'ann@example.com' for key 'users.email'`, `Error 1062 (23000): Duplicate entry '…' for key '…'`},
	{`ORA-00001: unique constraint (APP.PK_7) violated`, `ORA-00001: unique constraint (APP.PK_N) violated`},
	{`SQLSTATE[HY000] [2002] Connection timed out`, `SQLSTATE[HY000] [N] Connection timed out`},
	// EMQ, and others
	{`stalled`, `stalled`},
	{`bad row: attempts is missing or is no integer that can be counted up`, `bad row: attempts is missing or is no integer that can be counted up`},
	{`job JOB0Iab2RJbbR3 of 2025-11-30 08:00:01.123 +0000 UTC has no address`, `job ID of TIME has no address`},
	{`no such charge ch_3OqXk2LkdIwHu7ix0aB1c2d3`, `no such charge ch_ID`},
	{`user user4711 has 1,234.50 of 3e-05`, `user userN has N of N`},
	{`Sun, 30 Nov 2025 08:00:00 GMT: too late`, `TIME: too late`},
	{`ids 1, 2, 3 are missing`, `ids N are missing`},
	{"  \n ", none}, {"", none},
	{"bytes \xff\xfe \x00 of none", "bytes \uFFFD of none"},
}

func TestNormalise(t *testing.T) {
	for _, c := range normalised {
		require.Equal(t, c.want, Normalise(c.text), c.text)
	}
	long := Normalise(strings.Repeat("é ", 1000))
	require.InDelta(t, kept, utf8.RuneCountInString(long), 5)
	require.Contains(t, long, "é … é")
}

// Errors with different causes stay different, and those with the same cause become equal.
func TestAlike(t *testing.T) {
	for _, pair := range [][2]string{
		{"connection refused", "connection reset"}, {"status 404", "status 500"}, {"HTTP 404", "HTTP 410"}, {"exit status 1", "exit status 137"},
		{"550 5.1.1 <a@b.c>: no", "550 5.7.1 <a@b.c>: no"}, {"[Errno 110] x", "[Errno 111] x"}, {"Error 1062: x", "Error 1205: x"},
		{"java.lang.A: x", "java.lang.B: x"}, {`{"code":17}`, `{"code":18}`},
		{`failed: "connection refused by peer"`, `failed: "connection reset by peer"`},
	} {
		require.NotEqual(t, Normalise(pair[0]), Normalise(pair[1]), pair)
	}
	for _, pair := range [][2]string{
		{"no user 17", "no user 18"}, {"after 1.5s", "after 2m3s"}, {"from 10.0.0.1:80", "from [fe80::1%eth0]:80"}, {`no "a b"`, `no "c"`},
		{"at 2025-11-30T08:00:00Z", "at 2024-01-02 03:04:05.678 +0100"}, {"a\nb", "a   b"}, {"x deadbeef01", "x 0123456789abcdef"},
	} {
		require.Equal(t, Normalise(pair[0]), Normalise(pair[1]), pair)
	}
}

// Normalising again changes nothing, and the result is short and on one line.
func FuzzNormalise(f *testing.F) {
	for _, c := range normalised {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := Normalise(text)
		require.Equal(t, once, Normalise(once))
		require.NotEmpty(t, once)
		require.True(t, utf8.ValidString(once))
		require.LessOrEqual(t, utf8.RuneCountInString(once), kept)
		require.NotContains(t, once, "\n")
	})
}

// The finder gives the same result as one expression of all rules.
func FuzzFinder(f *testing.F) {
	table := table()
	var all []string
	for _, r := range table {
		all = append(all, "("+r.pattern+")")
	}
	one := regexp.MustCompile(strings.Join(all, "|"))
	for _, c := range normalised {
		f.Add(c.text)
	}
	// Rules that fail many times, beginnings and ends of letters outside of ASCII, and letters that fold into ASCII.
	for _, text := range []string{"", "é1 é:1", "x\u017ftatus 5", "x\u017fql\u017ftate 40P01", "a:1", strings.Repeat("'x ", 50) + "'y' 'z", strings.Repeat("a.b ", 50) + "a.b:80 a@b",
		strings.Repeat("12:", 40), strings.Repeat(`\"`, 50), strings.Repeat("::1 ", 20), strings.Repeat("sha256 x", 20)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		var b strings.Builder
		end := 0
		for _, m := range one.FindAllStringSubmatchIndex(text, -1) {
			rule := 0
			for m[2*rule+2] < 0 {
				rule++
			}
			b.WriteString(text[end:m[0]] + table[rule].put(text[m[0]:m[1]]))
			end = m[1]
		}
		require.Equal(t, b.String()+text[end:], alike(text))
	})
}

func BenchmarkNormalise(b *testing.B) {
	for b.Loop() {
		for _, c := range normalised {
			Normalise(c.text)
		}
	}
}
