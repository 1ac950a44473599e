package emq

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/valkey-io/valkey-go"
)

// parameters are the valid parameters of a URL: those that valkey-go reads.
var parameters = []string{"addr", "client_cache", "client_name", "db", "dial_timeout", "master_set", "max_retries", "protocol", "skip_verify", "write_timeout"}

// ParseURL parses a URL of [Open]'s into options for [Dial], to which a program can add what no URL can say. Its errors do not
// quote the URL, which may have a password: a / ? or # in it that is not escaped looks like a port, a path, a parameter or a
// fragment. For the same reason parts that nothing reads are refused.
func ParseURL(text string) (*url.URL, valkey.ClientOption, error) {
	u, o, err := parseURL(text)
	if err != nil {
		err = noURL(err)
	}
	return u, o, err
}

func noURL(why error) error { return fmt.Errorf("emq: that is no URL of a server: %w", why) }

func parseURL(text string) (u *url.URL, o valkey.ClientOption, err error) {
	var given url.Values
	if u, err = url.Parse(text); err == nil {
		o, err = valkey.ParseURL(text)
	}
	if err == nil {
		given, err = url.ParseQuery(u.RawQuery)
	}
	switch {
	case u != nil && !slices.Contains([]string{"valkey", "valkeys", "redis", "rediss", "unix"}, u.Scheme):
		err = errors.New("it begins with valkey://, valkeys:// or unix://")
	case u != nil && u.Scheme == "unix" && (u.Host != "" || u.Path == ""):
		err = errors.New("after unix:// comes the socket's path from the root on, so that there are three slashes")
	case err != nil || u.Fragment != "":
		err = errors.New("it can't be read; in a name or password % / ? # are written %25 %2F %3F %23")
	}
	for name := range given {
		if err == nil && !slices.Contains(parameters, name) {
			err = fmt.Errorf("its parameters can be %s", strings.Join(parameters, ", "))
		}
	}
	if err != nil {
		return nil, valkey.ClientOption{}, err
	}
	return u, o, nil
}
