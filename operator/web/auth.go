package web

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// Role is what a viewer may do on the page. What the page itself may do depends on its Valkey user.
type Role int

// The roles.
const (
	Nobody   Role = iota // sees nothing
	Viewer               // sees all and changes nothing
	Operator             // does all
)

// Auth tells who sends a request, with which role. A name with the role [Nobody] is logged.
type Auth interface {
	Who(r *http.Request) (name string, role Role)
}

// AuthFunc makes an Auth of a function.
type AuthFunc func(r *http.Request) (name string, role Role)

// Who calls the function.
func (f AuthFunc) Who(r *http.Request) (string, Role) { return f(r) }

// Header trusts a header that a proxy sets, such as X-Forwarded-User: roles has the role of each name, and for other
// names that of "*". The page must be reachable only through the proxy, which must not pass on such a header from
// outside.
func Header(name string, roles map[string]Role) Auth {
	return proxied{func(r *http.Request) (string, Role) {
		// Of two such headers one is not the proxy's.
		given := r.Header.Values(name)
		if len(given) != 1 || given[0] == "" {
			return "", Nobody
		}
		role, ok := roles[given[0]]
		if !ok {
			role = roles["*"]
		}
		return given[0], role
	}}
}

// proxied is an Auth behind a proxy whose headers are trusted.
type proxied struct{ AuthFunc }

// Basic asks for a name and a password. The file has a line for each user, `name:role:hash`, where the role is viewer
// or operator, and the hash is bcrypt's, as `htpasswd -nB` prints it. Empty lines and lines that begin with # are
// ignored.
func Basic(file io.Reader) (Auth, error) {
	b := &basic{users: map[string]basicUser{}, seen: map[string][]byte{}, key: make([]byte, 32), slots: make(chan struct{}, 1)}
	rand.Read(b.key) // never fails
	lines, dearest := bufio.NewScanner(file), 0
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, ":")
		word, hash, ok := strings.Cut(rest, ":")
		role, err := ParseRole(word)
		if _, twice := b.users[name]; !ok || name == "" || err != nil || twice {
			return nil, fmt.Errorf("line %d of the users' file is not name:viewer:hash or name:operator:hash, or names a user again", n)
		}
		cost, err := bcrypt.Cost([]byte(hash))
		if err != nil {
			return nil, fmt.Errorf("line %d of the users' file has no hash of bcrypt's: %w", n, err)
		}
		b.users[name] = basicUser{role, []byte(hash)}
		if cost > dearest {
			b.none, dearest = []byte(hash), cost
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(b.users) == 0 {
		return nil, errors.New("the users' file names nobody")
	}
	return b, nil
}

// ParseRole parses the name of a role, viewer or operator.
func ParseRole(name string) (Role, error) {
	switch name {
	case "viewer":
		return Viewer, nil
	case "operator":
		return Operator, nil
	}
	return Nobody, fmt.Errorf("there is no role %q: viewer and operator are", name)
}

type basicUser struct {
	role Role
	hash []byte
}

type basic struct {
	users map[string]basicUser
	none  []byte // the most expensive hash, compared for unknown names so that they take as long
	key   []byte
	slots chan struct{} // bounds concurrent comparisons, so that guessing takes at most one core

	mu sync.Mutex
	// seen has a keyed hash of each user's last correct password, because bcrypt is slow on purpose and a page sends
	// many requests.
	seen map[string][]byte
}

func (b *basic) Who(r *http.Request) (string, Role) {
	name, password, ok := r.BasicAuth()
	if !ok {
		return "", Nobody
	}
	sum := hmac.New(sha256.New, b.key)
	sum.Write([]byte(password))
	now := sum.Sum(nil)
	user, known := b.users[name]
	b.mu.Lock()
	right := known && hmac.Equal(b.seen[name], now)
	b.mu.Unlock()
	if right {
		return name, user.role
	}
	hash := user.hash
	if !known {
		hash = b.none
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-r.Context().Done():
		return "", Nobody
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !known {
		return name, Nobody
	}
	b.mu.Lock()
	b.seen[name] = now
	b.mu.Unlock()
	return name, user.role
}

// challenge makes a browser ask for a password.
func (b *basic) challenge() string { return `Basic realm="EMQ", charset="UTF-8"` }
