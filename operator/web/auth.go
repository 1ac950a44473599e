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

// Role is what somebody may do on the page. What the page itself may do is up to the user with whom it speaks to Valkey.
type Role int

// The roles.
const (
	Nobody   Role = iota // sees nothing
	Viewer               // sees all and changes nothing
	Operator             // does all
)

// Auth tells who sends a request, and what he may do. Whoever is named and yet [Nobody] is in the log.
type Auth interface {
	Who(r *http.Request) (name string, role Role)
}

// AuthFunc is an Auth of the program's own.
type AuthFunc func(r *http.Request) (name string, role Role)

// Who calls the function.
func (f AuthFunc) Who(r *http.Request) (string, Role) { return f(r) }

// Header trusts a header that a proxy sets, such as X-Forwarded-User, and gives the role of the name in it; that of "*" to
// whoever has none of his own. The page must then be reachable through the proxy alone, and the proxy must not let the header
// through from outside.
func Header(name string, roles map[string]Role) Auth {
	return proxied{func(r *http.Request) (string, Role) {
		// Two such headers are one of the proxy's and one of somebody else's.
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

// Basic asks for a name and a password. The file has a line for each user, `name:role:hash`, of which the role is viewer or
// operator, and the hash bcrypt's, as `htpasswd -nB` prints it. Empty lines and such that begin with # are passed over.
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

// ParseRole is the role of a name, viewer or operator.
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
	none  []byte // is compared for names that are none, so that they take as long: the dearest
	key   []byte
	slots chan struct{} // how many passwords are looked at at a time: who guesses takes no more than one core

	mu sync.Mutex
	// seen is the keyed sum of each user's password as it was last right: bcrypt is slow on purpose, and a page asks often.
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

// challenge is what a browser asks for a password on.
func (b *basic) challenge() string { return `Basic realm="EMQ", charset="UTF-8"` }
