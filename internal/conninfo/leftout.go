package conninfo

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Part is what a conninfo does not say, and libpq's other places or its defaults
// do.
type Part struct {
	Keyword string
	Value   string // "" for a password, which is not shown
	From    string // the variable, "service", "password file" or "default"
}

// leftOut are the keywords that somebody may miss, and their variables.
var leftOut = []struct {
	keyword, variable string
	value             func(*pgconn.Config) string
}{
	{"host", "PGHOST", func(c *pgconn.Config) string { return c.Host }},
	{"port", "PGPORT", func(c *pgconn.Config) string { return strconv.Itoa(int(c.Port)) }},
	{"user", "PGUSER", func(c *pgconn.Config) string { return c.User }},
	{"dbname", "PGDATABASE", func(c *pgconn.Config) string { return c.Database }},
}

// LeftOut lists what comes to a conninfo from elsewhere: host, port, user and
// database, and the password if there is one. getenv looks up a variable, as the
// driver does. A conninfo that cannot be parsed has no parts.
func LeftOut(conninfo string, getenv func(string) string) []Part {
	config, err := pgconn.ParseConfig(conninfo)
	if err != nil {
		return nil
	}
	said := keywords(conninfo)
	from := func(variable, otherwise string) string {
		switch {
		case said["service"] || getenv("PGSERVICE") != "":
			return "service"
		case getenv(variable) != "":
			return variable
		}
		return otherwise
	}
	var parts []Part
	for _, k := range leftOut {
		if value := k.value(config); !said[k.keyword] && value != "" {
			parts = append(parts, Part{k.keyword, value, from(k.variable, "default")})
		}
	}
	if !said["password"] && config.Password != "" {
		parts = append(parts, Part{"password", "", from("PGPASSWORD", "password file")})
	}
	return parts
}

// keywords are those that a conninfo has, be it as the parts of a URI.
func keywords(conninfo string) map[string]bool {
	said := map[string]bool{}
	if !isURI(conninfo) {
		for key, value := range pairs(conninfo) {
			said[key] = value != "" && value != "''"
		}
		return said
	}
	_, rest, _ := strings.Cut(conninfo, "://")
	rest, query, _ := strings.Cut(rest, "?")
	authority, database, _ := strings.Cut(rest, "/")
	userinfo, hosts, found := strings.Cut(authority, "@")
	if !found {
		userinfo, hosts = "", authority
	}
	user, password, _ := strings.Cut(userinfo, ":")
	bare := hosts[strings.LastIndexByte(hosts, ']')+1:] // an IPv6 address has colons
	said["user"], said["password"], said["dbname"] = user != "", password != "", database != ""
	said["host"], said["port"] = hosts != "" && hosts[0] != ':', strings.Contains(bare, ":")
	for parameter := range strings.SplitSeq(query, "&") {
		if key, value, _ := strings.Cut(parameter, "="); value != "" {
			said[key] = true
		}
	}
	return said
}
